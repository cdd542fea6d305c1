import { isUtf8 } from 'node:buffer';
import { areApart } from '../lib/paths.ts';
import { type Catalog, type CatalogState, maxPieceBytes, type OutputRecord } from './catalog.ts';
import { parseCatalog, parseWhole, recordParser, type SourceBackends } from './parse.ts';
import { asObject, Malformed } from './parse-fields.ts';
import { recordToJson, serialiseCatalog } from './serialise.ts';

const newline = 0x0a;
const comma = 0x2c;
const space = 0x20;
/** The delimiters of the two record lists by indent: the catalog's (2) and its intent's (4). */
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
  /** True at the start of the list and after a comma. */
  isRecordNext: boolean;
}

/** Parses the bytes of a `.publisher.json`, whether or not they are in canonical form. */
export function parseState(bytes: Uint8Array, backends: SourceBackends): CatalogState {
  const catalog = readCanonical(bytes, backends);
  return catalog === null ? parseWhole(bytes, backends) : { kind: 'valid', catalog };
}

/** Parses a catalog. Returns null unless the bytes are exactly the output of `serialiseCatalog`. */
export function readCanonical(bytes: Uint8Array, backends: SourceBackends): Catalog | null {
  const reader = new CanonicalReader(backends);
  return reader.push(bytes) ? reader.catalog() : null;
}

/**
 * A streaming parser for catalogs in the exact form that `serialiseCatalog` writes. It keeps only the
 * records, because the bytes can be regenerated. The text and the `JSON.parse` tree of half a million records
 * would take many times the memory.
 *
 * Lists of records are read line by line and removed from the document. The remaining document is parsed as a
 * whole and must equal the output of `serialiseCatalog` for a catalog without records.
 */
export class CanonicalReader {
  readonly #backends: SourceBackends;
  readonly #parseRecord: (value: unknown) => OutputRecord;
  /** The document without its records. */
  readonly #rest: Buffer[] = [];
  /** The records found so far, by indent. */
  readonly #found = new Map<number, OutputRecord[]>();
  /** The list being read, or null outside lists. */
  #list: OpenList | null = null;
  /** The start of a line whose end has not arrived yet. */
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  #restBytes = 0;

  constructor(backends: SourceBackends) {
    this.#backends = backends;
    this.#parseRecord = recordParser(backends);
  }

  /** Returns false once the bytes are not in canonical form. Does not keep the chunk. */
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
   * Returns the catalog after all bytes have been pushed, or null if it is incomplete or not in canonical
   * form.
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
   * Parses the document without its records. The comparison rejects truncated documents, duplicate lists and
   * other versions.
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

  /** Returns null if the line is not exactly the output of `recordToJson`. */
  #readRecord(line: Buffer): OutputRecord | null {
    if (!isUtf8(line)) return null;
    const text = line.toString();
    const record = nullIfMalformed(() => this.#parseRecord(JSON.parse(text)));
    return record !== null && recordToJson(record) === text ? record : null;
  }
}

/** Returns null if the text is not JSON, or not what its parser expects. */
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
