import { type FileHandle, lstat, open } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { closeAll } from '../lib/lifecycle.ts';
import type { Log } from '../lib/log.ts';
import { shareWithOwner } from './append-lock.ts';
import {
  type ActEntry,
  type AuditRecord,
  type ChainEnd,
  chainStart,
  digestOfLine,
  lineOf,
  nextRecord,
} from './record.ts';
import {
  type FileEnd,
  type Head,
  headName,
  listTrailFiles,
  openHead,
  openToAppend,
  readFileEnd,
  readFirstTime,
  readHeadOf,
  readTail,
  trailFileName,
  writeHead,
} from './trail-files.ts';

export interface TrailSettings {
  directory: string;
  /** How large a file can be, in bytes. Before it would get any larger, a new one is started. */
  maxBytes: number;
  /** How old the first record in a file can get before a new file is started. */
  maxAgeMs: number;
  /** Whether to refuse acts as long as the trail cannot be written. */
  onFull: 'refuse' | 'continue';
}

interface DatedEntry {
  entry: ActEntry;
  time: Date;
}

interface WriterOptions {
  host: string;
  clock: Pick<Clock, 'now'>;
  log: Log;
}

/** The file that records are currently appended to. */
interface OpenFile {
  name: string;
  handle: FileHandle;
  size: number;
  /** The time of its first record; null if there are none yet. */
  begun: Date | null;
}

/**
 * Appends records to the newest file of a trail. The caller must hold the lock. Between two calls, other
 * processes may have written to the trail.
 */
export class TrailWriter {
  readonly #settings: TrailSettings;
  readonly #host: string;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #log: Log;
  #head: FileHandle | null = null;
  #file: OpenFile | null = null;
  #end: ChainEnd = chainStart;

  constructor(settings: TrailSettings, { host, clock, log }: WriterOptions) {
    this.#settings = settings;
    this.#host = host;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Writes all entries at once and syncs them to disk, after cleaning up any interrupted write. Returns their
   * records. In case of an error, none of the entries is in the file. Throws the system error, or
   * `audit_unavailable` if the file is not a trail.
   */
  async append(entries: readonly DatedEntry[]): Promise<AuditRecord[]> {
    const recovery = await this.#catchUp();
    const all = [
      ...(recovery === null ? [] : [{ entry: recovery.entry, time: this.#clock.now() }]),
      ...entries,
    ];
    if (all.length === 0) return [];
    let end = this.#end;
    const records: AuditRecord[] = [];
    const lines = all.map(({ entry, time }) => {
      const record = nextRecord(end, entry, { time, host: this.#host });
      records.push(record);
      const line = lineOf(record);
      end = { seq: end.seq + 1, digest: digestOfLine(line) };
      return `${line}\n`;
    });
    // Make the rest of the interrupted write a complete line. The recovery record says what happened.
    const isTorn = recovery?.isTorn === true;
    const bytes = Buffer.from(`${isTorn ? '\n' : ''}${lines.join('')}`);
    const begun = all[0]?.time ?? null;
    const file = await this.#fileFor(bytes.length, begun, isTorn);
    await writeWhole(file, bytes);
    file.size += bytes.length;
    file.begun ??= begun;
    this.#end = end;
    await this.#noteEnd(file);
    return records;
  }

  /**
   * Writes the end of the chain to `head`. If that fails, the records are written all the same, so this does
   * not throw: the caller would write them again. The next append reads the records that `head` lacks.
   */
  async #noteEnd({ name, size }: OpenFile): Promise<void> {
    if (this.#head === null) return;
    await writeHead(this.#head, { ...this.#end, file: name, size }).catch((error: unknown) => {
      this.#log.error({ err: error, directory: this.#settings.directory }, 'the audit head was not written');
    });
  }

  async close(): Promise<void> {
    const [file, head] = [this.#file, this.#head];
    this.#file = null;
    this.#head = null;
    await closeAll(
      () => file?.handle.close(),
      () => head?.close(),
    );
  }

  /** Finds the end of the chain. If there is something wrong with it, returns a recovery record. */
  async #catchUp(): Promise<Recovery | null> {
    const isHeadGone = await this.#closeReplaced();
    const head = await this.#openHead();
    const stored = await readHeadOf(head);
    const isOlder = isHeadGone && (stored?.seq ?? 0) < this.#end.seq;
    const known = isOlder ? { ...this.#end, file: null, size: 0 } : stored;
    const file = this.#file;
    const isCurrent =
      file !== null &&
      known !== null &&
      known.file === file.name &&
      known.seq === this.#end.seq &&
      known.digest === this.#end.digest &&
      (await file.handle.stat()).size === file.size;
    if (isCurrent) return null;
    await file?.handle.close();
    this.#file = null;
    const { last, torn, isCut, isNew } = await this.#openNewest(known);
    const found = last?.seq ?? 0;
    if (known !== null && found < known.seq)
      this.#log.error(
        { directory: this.#settings.directory, expected: known.seq, found },
        'records at the end of the audit trail are missing; see waybill audit verify',
      );
    // If records are missing, there should be a gap before the next one.
    this.#end = known !== null && known.seq > found ? known : (last ?? chainStart);
    return recoveryOf(torn, { isCut, isHeadMissing: isHeadGone || (known === null && !isNew) });
  }

  /**
   * Closes files whose names are gone or lead to other files, for example because the directory was moved.
   * Records in them would not be part of the trail. Returns whether `head` was one of them.
   */
  async #closeReplaced(): Promise<boolean> {
    const { directory } = this.#settings;
    const [file, head] = [this.#file, this.#head];
    if (file !== null && !(await leadsTo(path.join(directory, file.name), file.handle))) {
      this.#file = null;
      await file.handle.close();
    }
    if (head === null || (await leadsTo(path.join(directory, headName), head))) return false;
    this.#head = null;
    await head.close();
    return this.#end.seq > 0;
  }

  async #openHead(): Promise<FileHandle> {
    if (this.#head !== null) return this.#head;
    const { directory } = this.#settings;
    const { handle, isNew } = await openHead(directory);
    this.#head = handle;
    if (!isNew) return handle;
    await shareWithOwner(directory, handle);
    if ((await listTrailFiles(directory)).length === 0)
      await writeHead(handle, { ...chainStart, file: null, size: 0 });
    await handle.sync();
    // In a power failure, the name of the trail file might survive and the name of `head` might not. The
    // trail would then look as if it had been cut off.
    await syncDirectory(directory);
    return handle;
  }

  /**
   * Opens the newest file. `head` says where the chain ended at some earlier time; null if that is not known.
   */
  async #openNewest(head: Head | null): Promise<Omit<FileEnd, 'size' | 'isDamaged'> & { isNew: boolean }> {
    const { directory } = this.#settings;
    const files = await listTrailFiles(directory);
    const newest = files.at(-1);
    if (newest === undefined) return { last: null, torn: Buffer.alloc(0), isCut: false, isNew: true };
    const handle = await openToAppend(path.join(directory, newest.name));
    this.#file = { name: newest.name, handle, size: 0, begun: null };
    const before = await this.#lastBefore(files.at(-2)?.name);
    const tail = head === null ? null : await readTail(handle, tailAfter(head, before, newest.name));
    const { size, last, isDamaged, torn, isCut } = tail ?? (await readFileEnd(handle));
    if (isDamaged)
      throw new WaybillError('audit_unavailable', `the last line of ${newest.name} is not an audit record`, {
        hint: 'run waybill audit verify, and move the damaged trail to another place',
      });
    this.#file = { name: newest.name, handle, size, begun: await readFirstTime(handle) };
    return { last: last ?? before, torn, isCut, isNew: false };
  }

  /** Returns the last record in the file `name`. The file after it has no records yet. */
  async #lastBefore(name: string | undefined): Promise<ChainEnd | null> {
    if (name === undefined) return null;
    const handle = await open(path.join(this.#settings.directory, name), 'r');
    try {
      return (await readFileEnd(handle)).last;
    } finally {
      await handle.close();
    }
  }

  /** Returns the file to append to, which is the newest one unless it is too large or too old. */
  async #fileFor(bytes: number, time: Date | null, mustContinue: boolean): Promise<OpenFile> {
    const { directory, maxBytes, maxAgeMs } = this.#settings;
    const file = this.#file;
    if (file !== null) {
      const isFull = file.size > 0 && file.size + bytes > maxBytes;
      const isOld = file.begun !== null && time !== null && time.getTime() - file.begun.getTime() > maxAgeMs;
      if (mustContinue || (!isFull && !isOld)) return file;
      await file.handle.close();
      this.#file = null;
      this.#log.info(
        { file: file.name, seq: this.#end.seq, digest: this.#end.digest },
        'audit file is complete',
      );
    }
    const name = trailFileName(this.#end.seq + 1);
    const at = path.join(directory, name);
    const handle = await openToAppend(at);
    this.#file = { name, handle, size: (await handle.stat()).size, begun: null };
    await shareWithOwner(directory, handle);
    await syncDirectory(directory);
    return this.#file;
  }
}

/**
 * Returns the last record in this file that `head` knows about. If `head` is older than the file, returns the
 * record before it.
 */
function tailAfter(head: Head, before: ChainEnd | null, file: string): ChainEnd & { size: number } {
  return head.file === file ? head : { ...(before ?? chainStart), size: 0 };
}

async function leadsTo(at: string, handle: FileHandle): Promise<boolean> {
  const [named, opened] = [await lstat(at).catch(() => null), await handle.stat()];
  return named !== null && named.ino === opened.ino && named.dev === opened.dev;
}

/** Writes all bytes and syncs them to disk. If that fails, removes what was written. */
async function writeWhole({ handle, size }: OpenFile, bytes: Buffer): Promise<void> {
  try {
    await handle.appendFile(bytes);
    await handle.datasync();
  } catch (error) {
    await handle.truncate(size).catch(() => undefined);
    throw error;
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

interface Recovery {
  entry: ActEntry;
  /** Whether the file ends in the middle of a line. */
  isTorn: boolean;
}

/** Describes an interrupted write, a missing `head`, or both. Returns null if neither is the case. */
function recoveryOf(
  torn: Buffer,
  { isCut, isHeadMissing }: { isCut: boolean; isHeadMissing: boolean },
): Recovery | null {
  if (torn.length === 0 && !isHeadMissing) return null;
  const detail = {
    ...(torn.length > 0 && { torn_bytes: torn.length, torn_digest: digestOfLine(torn) }),
    ...(isHeadMissing && { head_missing: true }),
  };
  return {
    isTorn: torn.length > 0 && !isCut,
    entry: { act: 'audit.recover', result: 'done', actor: { type: 'daemon', id: null }, detail },
  };
}
