import { areApart } from '../../paths.ts';
import { maxPieceBytes, type Catalog, type OutputRecord } from '../catalog.ts';
import { parseCatalog } from '../parse-catalog.ts';
import { asObject, Malformed } from '../parse-fields.ts';
import type { SourceBackends } from '../parse-record.ts';
import { serialiseCatalog } from '../serialise-catalog.ts';
import { RecordReader } from './record-reader.ts';

const newline = 0x0a;
const comma = 0x2c;
const space = 0x20;
/** Where a list of records begins and ends, by its indent: that of the catalog, and that of its intent. */
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
  /** At the beginning, and after a comma. */
  isRecordNext: boolean;
}

/** The catalog in these bytes if they are exactly what `serialiseCatalog` writes of it; else null. Pure. */
export function readCanonical(bytes: Uint8Array, backends: SourceBackends): Catalog | null {
  const reader = new CanonicalReader(backends);
  return reader.push(bytes) ? reader.catalog() : null;
}

/**
 * Reads a catalog while its bytes arrive, as long as they are exactly those that `serialiseCatalog` writes of
 * it: then nothing but its records has to be kept, because the bytes can be made again. A catalog of half a
 * million records as one text, and as one tree of what `JSON.parse` makes of it, takes many times as much.
 *
 * Lists of records are read line by line and taken out of the document. What is left of that is parsed, and
 * must be what `serialiseCatalog` writes of a catalog without records.
 */
export class CanonicalReader {
  readonly #backends: SourceBackends;
  readonly #records: RecordReader;
  /** The document without its records. */
  readonly #rest: Buffer[] = [];
  /** By indent. */
  readonly #found = new Map<number, OutputRecord[]>();
  /** The list that is being read. */
  #list: OpenList | null = null;
  /** The beginning of a line whose end has not arrived. */
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  #restBytes = 0;

  constructor(backends: SourceBackends) {
    this.#backends = backends;
    this.#records = new RecordReader(backends);
  }

  /** False as soon as the bytes turn out to be others. The chunk is not kept. */
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

  /** What was read, once all of it was pushed; null if it is not a whole catalog. */
  catalog(): Catalog | null {
    if (this.#carriedBytes > 0) return null;
    const catalog = this.#withoutRecords();
    if (catalog === null) return null;
    const outputs = this.#found.get(2) ?? [];
    const announced = this.#found.get(4) ?? [];
    if (!isSorted(outputs) || !areApart(pathsOf(outputs)) || !areApart(pathsOf(announced))) return null;
    return { ...catalog, outputs, pending: catalog.pending && { ...catalog.pending, outputs: announced } };
  }

  /** The comparison refuses what is cut short, a list that is there twice, and any other version. */
  #withoutRecords(): Catalog | null {
    const rest = Buffer.concat(this.#rest);
    try {
      const catalog = parseCatalog(asObject(JSON.parse(rest.toString()), ''), this.#backends);
      return serialiseCatalog(catalog).equals(rest) ? catalog : null;
    } catch (error) {
      if (error instanceof Malformed || error instanceof SyntaxError) return null;
      throw error;
    }
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
    const record = this.#records.read(bytes, start, list.isRecordNext ? to - 1 : to);
    if (record === null) return false;
    list.records.push(record);
    return true;
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
