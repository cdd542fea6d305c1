import { isUtf8 } from 'node:buffer';
import type { Digest } from '../../lib/digest.ts';
import { escapeRegExp } from '../../lib/text.ts';
import { isPlainPath } from '../../lib/paths.ts';
import type { OutputRecord } from '../catalog.ts';
import { Malformed } from '../parse-fields.ts';
import { recordParser, type SourceBackends } from '../parse-record.ts';
import { beforeSize, recordEnd, recordMiddle, recordStart, recordToJson } from '../record-json.ts';

/*
 * Matches a whole record with one regular expression on latin1 text, one character per byte. A catalog has up
 * to half a million records, and this is faster than `JSON.parse`.
 */
const path = '([\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]+)';
const digest = '(sha256:[0-9a-f]{64})';
/** At most 15 digits: longer numbers may lose precision. */
const size = '(0|[1-9][0-9]{0,14})';
const url = '(?:null|"([\\x21\\x23-\\x5b\\x5d-\\x7e]+)")';
/** Number of recent shapes to try. Records are sorted by path, so adjacent ones are usually alike. */
const maxShapes = 8;

/** The values that similar records share, and the pattern that matches their lines. */
interface Shape extends Pick<OutputRecord, 'owner' | 'source' | 'kind' | 'updatedAt' | 'generated'> {
  form: RegExp;
}

/**
 * Reads records of one list from lines in the exact form that `recordToJson` writes. Most records have the
 * same owner, source, kind, time and metadata as a recent one. Such lines are matched instead of parsed, and
 * their records share these values.
 */
export class RecordReader {
  readonly #parse: (value: unknown) => OutputRecord;
  /** Most recently used first. */
  readonly #shapes: Shape[] = [];
  /** The latest buffer and its characters. A buffer holds many records. */
  #bytes: Buffer | null = null;
  #characters = '';

  constructor(backends: SourceBackends) {
    this.#parse = recordParser(backends);
  }

  /** The record in `bytes` from `from` up to `to`; null if the line is not in canonical form. */
  read(bytes: Buffer, from: number, to: number): OutputRecord | null {
    return this.#readAlike(bytes, from, to) ?? this.#readAny(bytes, from, to);
  }

  /** null if no known shape matches, or a value contains JSON escapes. */
  #readAlike(bytes: Buffer, from: number, to: number): OutputRecord | null {
    const all = this.#charactersOf(bytes);
    for (const [index, shape] of this.#shapes.entries()) {
      shape.form.lastIndex = from;
      const found = shape.form.exec(all);
      if (found === null || shape.form.lastIndex !== to) continue;
      if (index > 0) this.#shapes.unshift(...this.#shapes.splice(index, 1));
      return recordOf(shape, found);
    }
    return null;
  }

  #readAny(bytes: Buffer, from: number, to: number): OutputRecord | null {
    if (!isUtf8(bytes.subarray(from, to))) return null;
    const text = bytes.toString('utf8', from, to);
    const record = this.#parsed(text);
    if (record === null || recordToJson(record) !== text) return null;
    this.#remember(record);
    return record;
  }

  #remember(record: OutputRecord): void {
    const form = formOf(record);
    if (this.#shapes.some((known) => known.form.source === form.source)) return;
    if (this.#shapes.length === maxShapes) this.#shapes.pop();
    const { owner, source, kind, updatedAt, generated } = record;
    this.#shapes.unshift({ owner, source, kind, updatedAt, generated, form });
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

/** A sticky pattern for the `recordToJson` lines of records with the same shared values. */
function formOf(record: OutputRecord): RegExp {
  const parts = [
    literally(`${recordStart}"`),
    path,
    literally(`"${recordMiddle(record)}`),
    digest,
    literally(`"${beforeSize}`),
    size,
    literally(recordEnd(record)),
    url,
    '\\}',
  ];
  return new RegExp(parts.join(''), 'y');
}

/** null if the path or URL needs the full parser's checks. */
function recordOf(shape: Shape, found: RegExpExecArray): OutputRecord | null {
  const [, path = '', digest = '', size, url] = found;
  if (!isPlainPath(path) || (url !== undefined && !URL.canParse(url))) return null;
  const { owner, source, kind, updatedAt, generated } = shape;
  return {
    path,
    owner,
    source,
    kind,
    digest: digest as Digest,
    size: Number(size),
    updatedAt,
    generated,
    url: url ?? null,
  };
}

function literally(text: string): string {
  return escapeRegExp(Buffer.from(text).toString('latin1'));
}
