import { isUtf8 } from 'node:buffer';
import { areApart } from '../lib/paths.ts';
import { type Catalog, maxPieceBytes, type OutputRecord } from './catalog.ts';
import { parseCatalog, recordParser, type SourceBackends } from './parse.ts';
import { asObject, Malformed } from './parse-fields.ts';
import { recordToJson, serialiseCatalog } from './serialise.ts';

const newline = 0x0a;
const comma = 0x2c;
const space = 0x20;
/**
 * The lines before and after each of the two lists of records, by indentation: the catalog's (2) and its
 * intent's (4).
 */
const lists = [2, 4].map((indent) => ({
  indent,
  start: Buffer.from(`${' '.repeat(indent)}"outputs": [`),
  end: Buffer.from(`${' '.repeat(indent)}],`),
  empty: Buffer.from(`${' '.repeat(indent)}"outputs": [],\n`),
}));
const lineEnd = Buffer.from('\n');

interface OpenList {
  readonly indent: number;
  readonly end: Buffer;
  readonly records: OutputRecord[];
  /** Whether a record may come next, which is the case at the start of the list and after a comma. */
  isRecordNext: boolean;
}

/**
 * A streaming parser for catalogs in the exact form that `serialiseCatalog` writes. Since the bytes can be
 * generated again, only the records are kept in memory. For half a million records, the text and the tree
 * from `JSON.parse` would need many times as much.
 *
 * Lists of records are parsed line by line and taken out of the document. The rest is parsed as a whole, and
 * has to be identical to the output of `serialiseCatalog` for a catalog without records.
 */
export class CanonicalReader {
  readonly #backends: SourceBackends;
  readonly #parseRecord: (value: unknown) => OutputRecord;
  /** The document without its records. */
  readonly #rest: Buffer[] = [];
  /** The records found so far, by the indentation of their list. */
  readonly #found = new Map<number, OutputRecord[]>();
  /** The list that is being read; null outside of lists. */
  #list: OpenList | null = null;
  /** The beginning of a line that continues in the next chunk. */
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  #restBytes = 0;

  constructor(backends: SourceBackends) {
    this.#backends = backends;
    this.#parseRecord = recordParser(backends);
  }

  /**
   * Parses the next chunk, without holding on to it. Returns false if the bytes turn out not to be in
   * canonical form.
   */
  push(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    if (this.#carriedBytes > 0) {
      const end = bytes.indexOf(newline);
      if (end === -1) return this.#carry(bytes);
      const line = Buffer.concat([...this.#carried, bytes.subarray(0, end)]);
      this.#carried = [];
      this.#carriedBytes = 0;
      if (!this.#readLine(line, 0, line.length)) return false;
      from = end + 1;
    }
    for (let end = bytes.indexOf(newline, from); end !== -1; end = bytes.indexOf(newline, from)) {
      if (!this.#readLine(bytes, from, end)) return false;
      from = end + 1;
    }
    return this.#carry(bytes.subarray(from));
  }

  /**
   * Returns the catalog, once all bytes have been pushed. Returns null if the bytes are incomplete or not in
   * canonical form.
   */
  catalog(): Catalog | null {
    if (this.#carriedBytes > 0) return null;
    const catalog = this.#withoutRecords();
    if (catalog === null) return null;
    const outputs = this.#found.get(2) ?? [];
    const announced = this.#found.get(4) ?? [];
    if (!isSorted(outputs) || !areApart(pathsOf(outputs)) || !areApart(pathsOf(announced))) return null;
    return { ...catalog, outputs, pending: catalog.pending && { ...catalog.pending, outputs: announced } };
  }

  /**
   * Parses the document without its records. Serializing it again reveals truncated documents, duplicate
   * lists and other versions.
   */
  #withoutRecords(): Catalog | null {
    const rest = Buffer.concat(this.#rest);
    const catalog = nullIfMalformed(() =>
      parseCatalog(asObject(JSON.parse(rest.toString()), ''), this.#backends),
    );
    return catalog !== null && serialiseCatalog(catalog).equals(rest) ? catalog : null;
  }

  #carry(start: Buffer): boolean {
    if (start.length > 0) this.#carried.push(Buffer.from(start));
    this.#carriedBytes += start.length;
    return this.#carriedBytes <= maxPieceBytes;
  }

  #readLine(bytes: Buffer, from: number, to: number): boolean {
    if (this.#list !== null) return this.#readInList(this.#list, bytes, from, to);
    const list = lists.find(({ start }) => isLine(start, bytes, from, to));
    if (list === undefined) {
      this.#rest.push(Buffer.from(bytes.subarray(from, to)), lineEnd);
      this.#restBytes += to - from + 1;
      return this.#restBytes <= maxPieceBytes;
    }
    const records: OutputRecord[] = [];
    this.#found.set(list.indent, records);
    this.#rest.push(list.empty);
    this.#list = { indent: list.indent, end: list.end, records, isRecordNext: true };
    return true;
  }

  #readInList(list: OpenList, bytes: Buffer, from: number, to: number): boolean {
    if (isLine(list.end, bytes, from, to)) {
      this.#list = null;
      return !list.isRecordNext;
    }
    if (!list.isRecordNext) return false;
    const start = from + list.indent + 2;
    for (let at = from; at < start; at += 1) if (bytes[at] !== space) return false;
    list.isRecordNext = bytes[to - 1] === comma;
    const record = this.#readRecord(bytes.subarray(start, list.isRecordNext ? to - 1 : to));
    if (record === null) return false;
    list.records.push(record);
    return true;
  }

  /** Parses a line. Returns null if it is not exactly what `recordToJson` would write. */
  #readRecord(line: Buffer): OutputRecord | null {
    if (!isUtf8(line)) return null;
    const text = line.toString();
    const record = nullIfMalformed(() => this.#parseRecord(JSON.parse(text)));
    return record !== null && recordToJson(record) === text ? record : null;
  }
}

/** Returns null if the text is not JSON or does not have the expected structure. */
function nullIfMalformed<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Malformed || error instanceof SyntaxError) return null;
    throw error;
  }
}

function isLine(text: Buffer, bytes: Buffer, from: number, to: number): boolean {
  return to - from === text.length && bytes.compare(text, 0, text.length, from, to) === 0;
}

function pathsOf(records: readonly OutputRecord[]): string[] {
  return records.map(({ path }) => path);
}

function isSorted(records: readonly OutputRecord[]): boolean {
  return records.every(({ path }, index) => (records[index - 1]?.path ?? '') < path);
}
