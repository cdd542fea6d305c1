import { isUtf8 } from 'node:buffer';
import type { Digest } from '../../digest.ts';
import { escapeRegExp } from '../../escape-reg-exp.ts';
import { isPlainPath } from '../../paths.ts';
import type { OutputRecord } from '../catalog.ts';
import { Malformed } from '../parse-fields.ts';
import { recordParser, type SourceBackends } from '../parse-record.ts';
import { beforeSize, recordEnd, recordMiddle, recordStart, recordToJson } from '../record-json.ts';

/*
 * Bytes are matched as characters, one for each byte (latin1), by one expression for all of a record: a
 * catalog has up to half a million of them.
 */
const path = '([\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]+)';
const digest = '(sha256:[0-9a-f]{64})';
/** Longer numbers may not be exact. */
const size = '(0|[1-9][0-9]{0,14})';
const url = '(?:null|"([\\x21\\x23-\\x5b\\x5d-\\x7e]+)")';
/** So many sorts of record are remembered: they are sorted by path, so that neighbours are alike. */
const remembered = 8;

/** What records have in common that are alike: what they say, and the form of their lines. */
interface Sort extends Pick<OutputRecord, 'owner' | 'source' | 'kind' | 'updatedAt' | 'generated'> {
  form: RegExp;
}

/**
 * Reads records of one list, each from the bytes of a line that is exactly what `recordToJson` writes of it.
 * Most records have the owner, source, kind, time and metadata of one shortly before: their bytes are
 * compared and not parsed again, and the records share what they say.
 */
export class RecordReader {
  readonly #parse: (value: unknown) => OutputRecord;
  /** The first is that of the last record. */
  readonly #sorts: Sort[] = [];
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

  /** Null for a line of a sort that is new, or with a text that JSON escapes. */
  #readAlike(bytes: Buffer, from: number, to: number): OutputRecord | null {
    const all = this.#charactersOf(bytes);
    for (const [index, sort] of this.#sorts.entries()) {
      sort.form.lastIndex = from;
      const found = sort.form.exec(all);
      if (found === null || sort.form.lastIndex !== to) continue;
      if (index > 0) this.#sorts.unshift(...this.#sorts.splice(index, 1));
      return recordOf(sort, found);
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
    if (this.#sorts.some((known) => known.form.source === form.source)) return;
    if (this.#sorts.length === remembered) this.#sorts.pop();
    const { owner, source, kind, updatedAt, generated } = record;
    this.#sorts.unshift({ owner, source, kind, updatedAt, generated, form });
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

/** Matches from `lastIndex` on what `recordToJson` writes of records that are like this one. */
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

/** Null where the form alone does not say that it is right. */
function recordOf(sort: Sort, found: RegExpExecArray): OutputRecord | null {
  const [, path = '', digest = '', size, url] = found;
  if (!isPlainPath(path) || (url !== undefined && !URL.canParse(url))) return null;
  const { owner, source, kind, updatedAt, generated } = sort;
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
