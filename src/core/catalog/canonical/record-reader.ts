import { isUtf8 } from 'node:buffer';
import { parseDigest } from '../../digest.ts';
import { isPlainPath } from '../../paths.ts';
import type { OutputRecord } from '../catalog.ts';
import { Malformed } from '../parse-fields.ts';
import { recordParser, type SourceBackends } from '../parse-record.ts';
import { beforeSize, recordEnd, recordMiddle, recordStart, recordToJson } from '../record-json.ts';

/*
 * Bytes are compared as characters, one for each byte (latin1): comparing parts of strings takes a tenth of
 * what comparing parts of buffers does, of which there are several for each of half a million records.
 */
const opening = asCharacters(`${recordStart}"`);
const afterDigest = asCharacters(`"${beforeSize}`);
const digestBytes = 'sha256:'.length + 64;
const [quote, zero, nine, nought] = [0x22, 0x30, 0x39, 'null}'] as const;
/** Longer numbers may not be exact. */
const mostDigits = 15;
/** So many shared texts are remembered: records are sorted by path, so that neighbours are alike. */
const remembered = 8;

/** A text that was read before, and what it says. */
type Shared<K extends keyof OutputRecord> = Pick<OutputRecord, K> & { text: string };

/**
 * Reads records of one list, each from the bytes of a line that is exactly what `recordToJson` writes of it.
 * Most records have the owner, source, kind, time and metadata of one shortly before: their bytes are
 * compared and not parsed again, and the records share what they say.
 */
export class RecordReader {
  readonly #parse: (value: unknown) => OutputRecord;
  readonly #middles: Shared<'owner' | 'source' | 'kind'>[] = [];
  readonly #ends: Shared<'updatedAt' | 'generated'>[] = [];
  /** What was read last, and its characters: there are many records in it. */
  #bytes: Buffer | null = null;
  #characters = '';

  constructor(backends: SourceBackends) {
    this.#parse = recordParser(backends);
  }

  /** The record in `bytes` from `from` up to `to`; null if the line is any other. */
  read(bytes: Buffer, from: number, to: number): OutputRecord | null {
    return this.#readAlike(bytes, from, to) ?? this.#readAny(bytes, from, to);
  }

  /** Null for a line that has something for the first time, or a text that JSON escapes. */
  #readAlike(bytes: Buffer, from: number, to: number): OutputRecord | null {
    const all = this.#charactersOf(bytes);
    if (!isAt(opening, all, from, to)) return null;
    const pathAt = from + opening.length;
    const pathEnd = all.indexOf('"', pathAt);
    if (pathEnd === -1) return null;
    const middle = this.#middles.find((known) => isAt(known.text, all, pathEnd, to));
    if (middle === undefined) return null;
    const digestAt = pathEnd + middle.text.length;
    const digestEnd = digestAt + digestBytes;
    if (!isAt(afterDigest, all, digestEnd, to)) return null;
    const sizeAt = digestEnd + afterDigest.length;
    const sizeEnd = endOfNumber(bytes, sizeAt);
    const end = this.#ends.find((known) => isAt(known.text, all, sizeEnd, to));
    if (sizeEnd === sizeAt || end === undefined) return null;
    // Copies: parts of a string keep all of it in memory.
    const path = bytes.toString('latin1', pathAt, pathEnd);
    const digest = parseDigest(bytes.toString('latin1', digestAt, digestEnd));
    const url = urlIn(bytes, all, { at: sizeEnd + end.text.length, to });
    if (!isPlainPath(path) || digest === undefined || url === undefined) return null;
    const { owner, source, kind } = middle;
    const { updatedAt, generated } = end;
    const size = Number(bytes.toString('latin1', sizeAt, sizeEnd));
    return { path, owner, source, kind, digest, size, updatedAt, generated, url };
  }

  #readAny(bytes: Buffer, from: number, to: number): OutputRecord | null {
    if (!isUtf8(bytes.subarray(from, to))) return null;
    const text = bytes.toString('utf8', from, to);
    const record = this.#parsed(text);
    if (record === null || recordToJson(record) !== text) return null;
    remember(this.#middles, { ...record, text: asCharacters(`"${recordMiddle(record)}`) });
    remember(this.#ends, { ...record, text: asCharacters(recordEnd(record)) });
    return record;
  }

  #charactersOf(bytes: Buffer): string {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#characters = bytes.toString('latin1');
    }
    return this.#characters;
  }

  #parsed(text: string): OutputRecord | null {
    try {
      return this.#parse(JSON.parse(text));
    } catch (error) {
      if (error instanceof Malformed || error instanceof SyntaxError) return null;
      throw error;
    }
  }
}

function asCharacters(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** Whether `text` stands at `at`, and ends by `to`. */
function isAt(text: string, all: string, at: number, to: number): boolean {
  return at + text.length <= to && all.startsWith(text, at);
}

/** The end of a whole number as JSON writes it; `at` if there is none, or one that may not be exact. */
function endOfNumber(bytes: Buffer, at: number): number {
  let end = at;
  for (let digit = bytes[end] ?? 0; digit >= zero && digit <= nine; digit = bytes[end] ?? 0) end += 1;
  const isLong = end - at > mostDigits;
  const isPadded = end - at > 1 && bytes[at] === zero;
  return isLong || isPadded ? at : end;
}

/** The URL from `at` to the end of the record; undefined if there is none that is plainly one. */
function urlIn(
  bytes: Buffer,
  all: string,
  { at, to }: { at: number; to: number },
): string | null | undefined {
  if (to - at === nought.length && isAt(nought, all, at, to)) return null;
  const text = bytes.toString('latin1', at + 1, to - 2);
  const isQuoted = bytes[at] === quote && bytes[to - 2] === quote && bytes[to - 1] === 0x7d;
  return isQuoted && plainText.test(text) && URL.canParse(text) ? text : undefined;
}

const plainText = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

function remember<T extends { text: string }>(known: T[], next: T): void {
  if (known.some(({ text }) => text === next.text)) return;
  if (known.length === remembered) known.pop();
  known.unshift(next);
}
