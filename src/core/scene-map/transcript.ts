import { parse } from 'csv-parse/sync';
import { errorMessage, WaybillError } from '../lib/errors.ts';

/** The ids of a transcript's segments, as needed for the content rules. */
export interface Transcript {
  format: TranscriptFormat;
  /** Ascending and without duplicates. There is at least one. */
  ids: readonly number[];
}

type TranscriptFormat = 'json' | 'jsonl' | 'csv' | 'webvtt' | 'srt';

export interface TranscriptOptions {
  /**
   * Fields that could contain the id of a segment in JSON, JSON Lines and CSV. The first one found is used.
   * Default: `segment_id`.
   */
  idKeys?: readonly string[];
  /**
   * Which id to use for a cue in WebVTT and SRT: the number above it, or its position in the file, starting
   * at 1. With `auto`, the number is used if every cue has one, and the position otherwise.
   */
  cueIds?: 'number' | 'order' | 'auto';
}

/**
 * Reads the ids of a transcript's segments. The format is detected from the content. It can be a JSON array,
 * JSON Lines or CSV with an integer `segment_id`, WebVTT, or SRT. For anything else, throws a `usage` error
 * that says what is wrong, and in which line.
 */
export function readTranscript(bytes: Uint8Array, file: string, options: TranscriptOptions = {}): Transcript {
  const text = decode(bytes, file);
  const keys = options.idKeys ?? ['segment_id'];
  const start = text.trimStart();
  if (start === '') throw refused(file, 'it is empty');
  if (/^WEBVTT(?:[ \t\n]|$)/.test(text))
    return made('webvtt', cueIds(text, file, options.cueIds ?? 'auto'), file);
  if (start.startsWith('[')) return made('json', fromJson(text, file, keys), file);
  if (start.startsWith('{')) return made('jsonl', fromJsonLines(text, file, keys), file);
  if (/^(?:[^\n]*\n)?\d+:\d\d:\d\d[,.]\d{3}[ \t]*-->/.test(start))
    return made('srt', cueIds(text, file, options.cueIds ?? 'auto'), file);
  if (/[,;\t]/.test(firstLine(start)) || keys.includes(unquote(firstLine(start))))
    return made('csv', fromCsv(start, file, keys), file);
  throw refused(file, 'it is neither a JSON array, JSON Lines, CSV with a header, WebVTT nor SRT');
}

function decode(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true })
      .decode(bytes)
      .replaceAll('\r\n', '\n')
      .replaceAll('\r', '\n');
  } catch (error) {
    throw refused(file, 'it is not UTF-8 text', error);
  }
}

function made(format: TranscriptFormat, ids: number[], file: string): Transcript {
  if (ids.length === 0) throw refused(file, 'it has no segments');
  const sorted = [...ids].sort((a, b) => a - b);
  const repeated = sorted.find((id, index) => id === sorted[index + 1]);
  if (repeated === undefined) return { format, ids: sorted };
  const isCued = format === 'webvtt' || format === 'srt';
  throw refused(
    file,
    isCued
      ? `the cue number ${repeated} is used more than once; count the cues by order instead`
      : `the segment id ${repeated} is used more than once`,
  );
}

function fromJson(text: string, file: string, keys: readonly string[]): number[] {
  const items = parseJson(text, file, null);
  if (!Array.isArray(items)) throw refused(file, 'a JSON transcript is one array of segments');
  return items.map((item: unknown, index) => idOf(item, keys, `item ${index}`, file));
}

function fromJsonLines(text: string, file: string, keys: readonly string[]): number[] {
  const ids: number[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const item = parseJson(line, file, index + 1);
    if (index === 0 && holdsList(item))
      throw refused(file, 'it is a JSON object with a list inside; give the array of segments itself');
    ids.push(idOf(item, keys, `line ${index + 1}`, file));
  }
  return ids;
}

function holdsList(item: unknown): boolean {
  return (
    typeof item === 'object' &&
    item !== null &&
    Object.values(item).some(
      (value) => Array.isArray(value) && value.length > 0 && typeof value[0] === 'object',
    )
  );
}

function parseJson(text: string, file: string, line: number | null): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw refused(
      file,
      line === null
        ? 'it begins like a JSON array but is not valid JSON'
        : `line ${line} is not a JSON object (JSON Lines)`,
      error,
    );
  }
}

function idOf(item: unknown, keys: readonly string[], place: string, file: string): number {
  if (typeof item !== 'object' || item === null) throw refused(file, `${place} is not an object`);
  const record = item as Record<string, unknown>;
  const key = keys.find((name) => Object.hasOwn(record, name));
  if (key === undefined) throw refused(file, `${place} has no ${keys.join(' or ')}`);
  const id = record[key];
  if (typeof id !== 'number' || !Number.isSafeInteger(id))
    throw refused(file, `${key} of ${place} is not an integer`);
  return id;
}

function fromCsv(text: string, file: string, keys: readonly string[]): number[] {
  const header = firstLine(text);
  const delimiter = ['\t', ';', ','].find((one) => header.includes(one)) ?? ',';
  let rows: string[][];
  try {
    rows = parse(text, { delimiter, skip_empty_lines: true, trim: true });
  } catch (error) {
    throw refused(file, `it is not valid CSV: ${errorMessage(error)}`, error);
  }
  const names = rows[0] ?? [];
  const column = keys.map((key) => names.indexOf(key)).find((at) => at !== -1);
  if (column === undefined) throw refused(file, `its header has no column ${keys.join(' or ')}`);
  return rows.slice(1).map((row, index) => {
    const cell = row[column] ?? '';
    if (!/^-?\d+$/.test(cell) || !Number.isSafeInteger(Number(cell))) {
      throw refused(
        file,
        `row ${index + 2} has ${JSON.stringify(cell.slice(0, 40))} as ${names[column] ?? ''}, which is not an integer`,
      );
    }
    return Number(cell);
  });
}

const timing = /^(?:\d+:)?\d\d:\d\d[.,]\d{3}[ \t]*-->[ \t]*(?:\d+:)?\d\d:\d\d[.,]\d{3}(?:[ \t].*)?$/;

/**
 * Returns the ids of cues in WebVTT or SRT. Each cue has a line with its timing, and may have a number above
 * that.
 */
function cueIds(text: string, file: string, choice: 'number' | 'order' | 'auto'): number[] {
  const numbers: (number | null)[] = [];
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    if (!line.includes('-->')) continue;
    if (!timing.test(line.trim())) throw refused(file, `line ${index + 1} is not a cue timing`);
    const above = (lines[index - 1] ?? '').trim();
    numbers.push(/^\d+$/.test(above) && Number.isSafeInteger(Number(above)) ? Number(above) : null);
  }
  const order = numbers.map((_, index) => index + 1);
  const written = numbers.filter((number) => number !== null);
  if (choice === 'order' || (choice === 'auto' && written.length < numbers.length)) return order;
  const without = numbers.indexOf(null);
  if (without !== -1)
    throw refused(file, `cue ${without + 1} has no number over it; count them by order instead`);
  return written;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function unquote(text: string): string {
  return text.trim().replace(/^"(.*)"$/, '$1');
}

function refused(file: string, reason: string, cause?: unknown): WaybillError {
  return new WaybillError('usage', `the transcript ${file} cannot be used: ${reason}`, {
    hint: 'use a JSON array, JSON Lines or CSV with an integer segment_id (or a key that you name), WebVTT or SRT',
    cause,
  });
}
