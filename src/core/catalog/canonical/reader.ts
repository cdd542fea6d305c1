import { areApart } from '../../paths.ts';
import { catalogVersion, maxPieceBytes, type Catalog, type OutputRecord } from '../catalog.ts';
import { parseCatalog } from '../parse-catalog.ts';
import { Malformed } from '../parse-fields.ts';
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
  #list: (typeof lists)[number] | null = null;
  #endsWithComma = true;
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
    if (this.#carriedBytes > 0 || this.#list !== null) return null;
    const catalog = this.#withoutRecords();
    if (catalog === null) return null;
    const outputs = this.#found.get(2) ?? [];
    const announced = this.#found.get(4);
    if (!isSorted(outputs) || !areApart(pathsOf(outputs))) return null;
    if (announced === undefined) return { ...catalog, outputs };
    if (catalog.pending === null || !areApart(pathsOf(announced))) return null;
    return { ...catalog, outputs, pending: { ...catalog.pending, outputs: announced } };
  }

  #withoutRecords(): Catalog | null {
    const rest = Buffer.concat(this.#rest);
    try {
      const document = JSON.parse(rest.toString()) as Record<string, unknown>;
      if (document['schema_version'] !== catalogVersion) return null;
      const catalog = parseCatalog(document, this.#backends);
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
    if (this.#found.has(list.indent)) return false;
    this.#found.set(list.indent, []);
    this.#rest.push(list.empty);
    this.#list = list;
    this.#endsWithComma = true;
    return true;
  }

  #readInList(list: (typeof lists)[number], bytes: Buffer, from: number, to: number): boolean {
    const records = this.#found.get(list.indent) ?? [];
    if (isLine(list.end, bytes, from, to)) {
      this.#list = null;
      return records.length > 0 && !this.#endsWithComma;
    }
    const start = from + list.indent + 2;
    if (!this.#endsWithComma || start >= to) return false;
    for (let at = from; at < start; at += 1) if (bytes[at] !== space) return false;
    this.#endsWithComma = bytes[to - 1] === comma;
    const record = this.#records.read(bytes, start, this.#endsWithComma ? to - 1 : to);
    if (record === null) return false;
    records.push(record);
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
  return records.every(({ path }, index) => index === 0 || (records[index - 1]?.path ?? '') < path);
}
