import type { ZoneKind } from '../../places/position.ts';

/**
 * Thrown for a document that the reader cannot use (an error from the source, an empty list, another kind),
 * with the reason.
 */
export class NothingToLoad extends Error {
  override readonly name = 'NothingToLoad';
}

/**
 * Thrown for a document of a known kind, or an item of its list, that is broken. The message starts with the
 * fault, for example `features[3].properties.sent is missing`.
 */
export class BrokenDocument extends Error {
  override readonly name = 'BrokenDocument';
}

/**
 * Returns the results of `read` for each item. A broken item is left out, and its position in the list is
 * added to `leftOut`, as is each field that `read` notes. Throws if no item is left.
 */
export function readEach<Item, Result>(
  items: readonly Item[],
  list: string,
  leftOut: string[],
  read: (item: Item, note: (message: string) => void, place: string) => Result,
): Result[] {
  const broken: string[] = [];
  const results = items.flatMap((item, index) => {
    const place = `${list}[${index}]`;
    try {
      return [read(item, (message) => leftOut.push(`${place}: ${message}`), place)];
    } catch (error) {
      broken.push(`${place}: ${reasonOf(error)}`);
      return [];
    }
  });
  if (results.length === 0 && broken.length > 0) throw new BrokenDocument(broken[0]);
  leftOut.push(...broken);
  return results;
}

/**
 * Returns the reason for a broken document in a few words. Not every fault of a document can be foreseen, so
 * any error while reading it counts as a fault of the document.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof BrokenDocument || error instanceof NothingToLoad) return error.message;
  if (error instanceof SyntaxError) return `it is no JSON: ${error.message}`;
  return `it is not of the form that is known (${error instanceof Error ? error.message : String(error)})`;
}

/** The content of a document: rows with the contract's column names, and their relations. */
export type Value = string | number | boolean | null | readonly string[] | Readonly<Record<string, unknown>>;
export type Row = Record<string, Value>;

export type Loadable =
  | {
      family: 'observation';
      /** Position in a list, for messages, such as `features[2]`. */
      place?: string;
      /**
       * null if its position cannot be read. The observation then counts only if the station is already
       * known.
       */
      station: Row | null;
      observation: Row;
      weather: Row[];
      clouds: Row[];
    }
  | {
      family: 'alerts';
      /** True if the document lists everything that is in force. A single message only adds to the list. */
      isWholeList: boolean;
      fetchedAt: string;
      sourceUpdatedAt: string | null;
      alerts: Alert[];
    }
  | { family: 'forecast'; location: Row; run: Row; periods: Row[] }
  | { family: 'forecast_discussion'; discussion: Row; sections: Row[] }
  | { family: 'stories'; office: string; fetchedAt: string; stories: Row[] }
  | { family: 'outlook'; run: OutlookRun; areas: OutlookArea[] }
  | { family: 'outlook_discussion'; run: OutlookRun; discussion: Row }
  | ({ family: 'places' } & PlaceTable);

/** Rows with the same columns and different keys. */
export interface PlaceTable {
  table: 'stations' | 'locations' | 'offices' | 'zones' | 'fire_zones';
  rows: Row[];
}

export interface Alert {
  alert: Row & { alert_id: string };
  areas: AreaRow[];
  references: Row[];
  /** True if the alert is active according to the poll. */
  listed: boolean;
}

/** An area of an alert, given by its code, and the kind of its zone. */
export type AreaRow = Row & { alert_id: string; ugc: string; same: string | null; kind: ZoneKind };

export type OutlookArea = Row & { hazard: string; kind: string; label: string; part: number };

export interface OutlookRun {
  day: number;
  issued_at: string;
  valid_from: string;
  valid_until: string;
  forecaster: string | null;
  received_at: string;
}

export type Json = Record<string, unknown>;

export function isMap(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function mapsOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isMap) : [];
}

/**
 * Returns the items of a list, in order. An item that is not a map becomes an empty one, so it lacks every
 * field.
 */
export function itemsOf(value: unknown): Json[] {
  return (Array.isArray(value) ? value : []).map((item: unknown) => (isMap(item) ? item : {}));
}

/**
 * Returns the texts of a list. A single text counts as a list, because some converters turn a one-item list
 * into its item.
 */
export function textsOf(value: unknown): string[] {
  return [value].flat().filter((item) => typeof item === 'string');
}

/**
 * Reports an unreadable field or item. The rest of the document is still read. The message starts with its
 * position in the document: `properties.windGust is -17.9 km/h, …`.
 */
export type Note = (message: string) => void;

/** Returns the text, or null if the value is empty or not text. */
export function textOf(value: unknown): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value : null;
}

export function required(value: unknown, what: string): string {
  const text = textOf(value);
  if (text === null) throw new BrokenDocument(`${what} is missing`);
  return text;
}

/** Returns the text if it is one of `choices`. */
export function oneOf(value: unknown, choices: readonly string[], what: string): string {
  const text = required(value, what);
  if (!choices.includes(text))
    throw new BrokenDocument(`${what} is ${quoted(text)}, expected one of ${choices.join(', ')}`);
  return text;
}

/**
 * Parses an instant in UTC. A time without a zone is read as UTC, regardless of the process's time zone, and
 * noted.
 */
export function instantOf(value: unknown, what: string, note: Note = () => undefined): string {
  const text = required(value, what).trim();
  const isLocal = !/(?:[\d ][Zz]|:\d\d(?:\.\d+)? ?[-+]\d\d:?\d\d| (?:[A-Z]{2,4}T|UTC?))$/.test(text);
  const isDate = /^\d{4}-\d\d-\d\d$/.test(text);
  const date = new Date(isLocal && !isDate ? text + (/^\d{4}-\d\d-\d\dT/.test(text) ? 'Z' : ' UTC') : text);
  if (Number.isNaN(date.getTime()) || !isDayOfMonth(text))
    throw new BrokenDocument(`${what} is ${quoted(text)}, which is no time`);
  if (isLocal) note(`${what} is ${quoted(text)} without a time zone; read as UTC`);
  return date.toISOString();
}

/** Returns false for `2026-02-30`, which `Date` reads as a day in March. */
function isDayOfMonth(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? [];
  if (day === undefined) return true;
  return new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day);
}

export function optionalInstant(value: unknown, what: string, note?: Note): string | null {
  return textOf(value) === null ? null : instantOf(value, what, note);
}

/** Returns the result of `read`, or null if the field is broken, in which case it is noted. */
export function orNoted<T>(note: Note, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof BrokenDocument)) throw error;
    note(`${error.message}; read as unknown`);
    return null;
  }
}

/** Formats a document's value for a message: short, and on one line. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
