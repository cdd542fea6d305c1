import { createReadStream } from 'node:fs';
import path from 'node:path';
import { type AuditRecord, type ChainEnd, chainStart, digestOfLine, lineOf, parseLine } from './record.ts';
import { type Head, listTrailFiles, maxLineBytes, readHead, type TrailFile } from './trail-files.ts';

/**
 * A kind of damage to a trail. `edited`: a line was changed. `removed`: records are missing. `reordered`: a
 * record is in the wrong place. `cut`: records are missing at the end. `head`: the `head` file is missing or
 * damaged, so records could be missing at the end.
 */
type TrailFault = 'edited' | 'removed' | 'reordered' | 'cut' | 'head';

interface TrailProblem {
  fault: TrailFault;
  file: string | null;
  /** The number of the line, starting at 1; null if the problem does not have one. */
  line: number | null;
  message: string;
}

export interface TrailReport {
  records: number;
  files: number;
  /**
   * The last record and its digest. If you store these somewhere else, you can later prove that the trail
   * still has them.
   */
  end: ChainEnd;
  problems: TrailProblem[];
  /** Lines that were left by an interrupted write. These are not a sign of tampering. */
  interrupted: { file: string; line: number }[];
}

interface VerifyTrailOptions {
  /** Start with whichever file is first. There may have been others that were archived. */
  isPartial?: boolean;
  /** A record that must be in the trail, from an earlier report. */
  expected?: ChainEnd | null;
}

/**
 * Checks the chain, from the first file of a trail to the last. If the files cannot be read, throws the
 * system error.
 */
export async function verifyTrail(
  directory: string,
  { isPartial = false, expected = null }: VerifyTrailOptions = {},
): Promise<TrailReport> {
  // Read `head` first. Any records that are added in the meantime then come after it.
  const head = await readHead(directory);
  const files = await listTrailFiles(directory);
  const check = new ChainCheck({ head, expected, isPartial });
  for (const file of files) await check.file(directory, file);
  return { ...check.end(files.length > 0), files: files.length };
}

interface LineLocation {
  file: string;
  line: number;
}

/** A record whose `prev` is not the digest of the line before. */
interface BrokenLink {
  before: LineLocation | null;
  at: LineLocation;
}

class ChainCheck {
  readonly #options: { head: Head | null; expected: ChainEnd | null; isPartial: boolean };
  readonly #problems: TrailProblem[] = [];
  readonly #interrupted: LineLocation[] = [];
  readonly #broken: BrokenLink[] = [];
  /** The `seq` values that are missing, with the record after each gap. */
  readonly #missing = new Map<number, LineLocation>();
  #records = 0;
  #last: ChainEnd = chainStart;
  #maxSeq = 0;
  #lastPlace: LineLocation | null = null;
  /** A line that is not a record. If the next record says so, it is the result of an interrupted write. */
  #unreadable: (LineLocation & { digest: string }) | null = null;
  #headDigest: string | null = null;
  #hasExpected = false;

  constructor(options: { head: Head | null; expected: ChainEnd | null; isPartial: boolean }) {
    this.#options = options;
  }

  async file(directory: string, { name, firstSeq }: TrailFile): Promise<void> {
    let number = 0;
    for await (const { bytes, isWhole } of linesOf(path.join(directory, name))) {
      number += 1;
      const place = { file: name, line: number };
      const record = isWhole && bytes.length <= maxLineBytes ? parseLine(bytes.toString()) : null;
      if (record === null) this.#noteUnreadable({ ...place, digest: digestOfLine(bytes) }, isWhole);
      else {
        if (this.#records === 0) this.#begin(record, firstSeq, place);
        this.#take(record, bytes, place);
      }
    }
  }

  #noteUnreadable(line: LineLocation & { digest: string }, isWhole: boolean): void {
    this.#settleUnreadable(null);
    // Without a line feed, this is the last write, and no process has cleaned up after it yet.
    if (isWhole) this.#unreadable = line;
    else this.#interrupted.push({ file: line.file, line: line.line });
  }

  #settleUnreadable(next: AuditRecord | null): void {
    const line = this.#unreadable;
    if (line === null) return;
    this.#unreadable = null;
    const { file, line: number } = line;
    if (next?.act === 'audit.recover' && next.detail['torn_digest'] === line.digest)
      this.#interrupted.push({ file, line: number });
    else this.#add('edited', line, 'is not an audit record');
  }

  #begin(record: AuditRecord, firstSeq: number, place: LineLocation): void {
    if (this.#options.isPartial) {
      this.#last = { seq: record.seq - 1, digest: record.prev };
      this.#maxSeq = record.seq - 1;
    } else if (record.seq > 1 && record.seq === firstSeq) {
      this.#add(
        'removed',
        place,
        `is record ${record.seq}: records 1 to ${record.seq - 1} before it are missing`,
      );
      this.#last = { seq: record.seq - 1, digest: record.prev };
      this.#maxSeq = record.seq - 1;
    }
  }

  #take(record: AuditRecord, bytes: Buffer, place: LineLocation): void {
    this.#settleUnreadable(record);
    const digest = digestOfLine(bytes);
    if (lineOf(record) !== bytes.toString()) this.#add('edited', place, 'is not in canonical form');
    const { seq, prev, detail } = record;
    if (seq === this.#maxSeq + 1 && this.#last.seq === this.#maxSeq) {
      if (prev !== this.#last.digest) this.#broken.push({ before: this.#lastPlace, at: place });
    } else if (seq > this.#maxSeq)
      for (let next = this.#maxSeq + 1; next < seq && this.#missing.size < maxMissing; next += 1)
        this.#missing.set(next, place);
    else {
      this.#missing.delete(seq);
      this.#add('reordered', place, `is record ${seq}, which belongs before record ${this.#last.seq}`);
    }
    if (detail['head_missing'] === true)
      this.#add('head', place, 'notes that the file head was missing: records before it may have been cut');
    this.#note(seq, digest);
    this.#lastPlace = place;
    this.#records += 1;
  }

  #note(seq: number, digest: string): void {
    const { head, expected } = this.#options;
    if (seq === head?.seq) this.#headDigest = digest;
    if (seq === expected?.seq && digest === expected.digest) this.#hasExpected = true;
    this.#last = { seq, digest };
    this.#maxSeq = Math.max(this.#maxSeq, seq);
  }

  end(hasFiles: boolean): Omit<TrailReport, 'files'> {
    this.#settleUnreadable(null);
    this.#reportBroken();
    this.#reportMissing();
    this.#checkHead(hasFiles);
    const { expected } = this.#options;
    if (expected !== null && !this.#hasExpected)
      this.#add(
        'removed',
        null,
        `the trail does not have record ${expected.seq} with the digest ${expected.digest ?? ''}`,
      );
    return {
      records: this.#records,
      end: this.#last,
      problems: this.#problems,
      interrupted: this.#interrupted,
    };
  }

  /**
   * Reports where the chain is broken. If two links in a row are broken, the line between them was edited.
   */
  #reportBroken(): void {
    let previous: LineLocation | null = null;
    for (const { before, at } of this.#broken) {
      if (before !== null && previous !== null && isSame(before, previous)) {
        const found = this.#problems.findLastIndex(({ fault }) => fault === 'edited');
        if (found !== -1) this.#problems.splice(found, 1);
        this.#add('edited', before, 'was changed: the records around it do not match it');
      } else
        this.#add(
          'edited',
          before ?? at,
          before === null
            ? 'does not begin the chain'
            : 'was changed: the next record has another digest of it',
        );
      previous = at;
    }
  }

  #reportMissing(): void {
    let first: number | null = null;
    for (const [seq, place] of this.#missing) {
      first ??= seq;
      if (this.#missing.has(seq + 1)) continue;
      const range = first === seq ? `record ${seq} is` : `records ${first} to ${seq} are`;
      this.#problems.push({
        fault: 'removed',
        ...place,
        message: `${range} missing before ${place.file}:${place.line}`,
      });
      first = null;
    }
  }

  #checkHead(hasFiles: boolean): void {
    const { head } = this.#options;
    if (head === null) {
      if (hasFiles)
        this.#add(
          'head',
          null,
          'the file head is missing or damaged, so records at the end may have been cut',
        );
    } else if (head.seq > this.#maxSeq) {
      const from = this.#maxSeq + 1;
      this.#add(
        'cut',
        null,
        `${from === head.seq ? `record ${from} is` : `records ${from} to ${head.seq} are`} missing at the end`,
      );
    } else if (head.seq > 0 && this.#headDigest !== null && this.#headDigest !== head.digest)
      this.#add(
        'edited',
        this.#lastPlace,
        `record ${head.seq} was changed: the file head has another digest of it`,
      );
  }

  #add(fault: TrailFault, place: LineLocation | null, what: string): void {
    const message = place === null ? what : `${place.file}:${place.line} ${what}`;
    this.#problems.push({ fault, file: place?.file ?? null, line: place?.line ?? null, message });
  }
}

/** How many missing records to list. */
const maxMissing = 100_000;

const isSame = (a: LineLocation, b: LineLocation): boolean => a.file === b.file && a.line === b.line;

/** Yields the lines of a file. A line that is too long for a record is shortened, but is still too long. */
async function* linesOf(file: string): AsyncGenerator<{ bytes: Buffer; isWhole: boolean }> {
  let rest = Buffer.alloc(0);
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = bytes.indexOf(0x0a); end !== -1; end = bytes.indexOf(0x0a)) {
      yield { bytes: bytes.subarray(0, end), isWhole: true };
      bytes = bytes.subarray(end + 1);
    }
    rest = Buffer.from(bytes.subarray(0, maxLineBytes + 1));
  }
  if (rest.length > 0) yield { bytes: rest, isWhole: false };
}
