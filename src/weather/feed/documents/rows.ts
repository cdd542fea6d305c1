import { errorMessage } from '../../../core/lib/errors.ts';
import { isRecord } from '../../../core/lib/json-document.ts';
import { quoted } from '../../../core/lib/text.ts';
import type { ZoneKind } from '../../places/position.ts';

/**
 * Thrown if a document contains nothing that we could load, with the reason: it is an error from the source,
 * an empty list, or of a different kind.
 */
export class NothingToLoad extends Error {
  override readonly name = 'NothingToLoad';
}

/**
 * Thrown if a document is of a known kind but invalid, or if one of its list items is. The message starts
 * with the location of the problem, such as `features[3].properties.sent is missing`.
 */
export class BrokenDocument extends Error {
  override readonly name = 'BrokenDocument';
}

/**
 * Calls `read` for each item of a list and returns the results. If an item is invalid, it is skipped, and its
 * position and the reason are added to `leftOut`, along with everything that `read` reports about single
 * fields. Throws if all items are invalid.
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
 * Describes in a few words what is wrong with a document. We cannot foresee everything, so any error thrown
 * while reading a document is blamed on the document.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof BrokenDocument || error instanceof NothingToLoad) return error.message;
  if (error instanceof SyntaxError) return `it is not JSON: ${error.message}`;
  return `its structure is unknown (${errorMessage(error)})`;
}

/** The contents of a document, as rows with the column names of the contract. */
export type Value = string | number | boolean | null | readonly string[] | Readonly<Record<string, unknown>>;
export type Row = Record<string, Value>;

export type Loadable =
  | {
      family: 'observation';
      /** The position in a list, for messages: `features[2]`. */
      place?: string;
      /**
       * null if the station's position is missing or invalid. In that case, the observation is only stored if
       * the station is already known.
       */
      station: Row | null;
      observation: Row;
      weather: Row[];
      clouds: Row[];
    }
  | {
      family: 'alerts';
      /**
       * True if the document is a full list of the alerts in force. False if it is a single message, which is
       * added to them.
       */
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

/** Rows for one of the place tables. They all have the same columns, and each has a different key. */
export interface PlaceTable {
  table: 'stations' | 'locations' | 'offices' | 'zones' | 'fire_zones';
  rows: Row[];
}

export interface Alert {
  alert: Row & { alert_id: string };
  areas: AreaRow[];
  references: Row[];
  /** True if the alert is in force according to the list. */
  listed: boolean;
}

/** A forecast zone or county that an alert applies to. */
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

export function mapsOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

/**
 * Returns the items of a list, in order. Replaces items that are not objects with empty ones, so that their
 * fields are reported as missing.
 */
export function itemsOf(value: unknown): Json[] {
  return (Array.isArray(value) ? value : []).map((item: unknown) => (isRecord(item) ? item : {}));
}

/**
 * Returns the strings in a list. Also accepts a single string, because some converters replace a list of one
 * item with the item.
 */
export function textsOf(value: unknown): string[] {
  return [value].flat().filter((item) => typeof item === 'string');
}

/**
 * Reports a field or item that could not be read. It does not affect the rest of the document. The message
 * starts with the location: `properties.windGust is -17.9 km/h, …`.
 */
export type Note = (message: string) => void;

/** Returns the value if it is a string with text in it, and null otherwise. */
export function textOf(value: unknown): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value : null;
}

export function required(value: unknown, what: string): string {
  const text = textOf(value);
  if (text === null) throw new BrokenDocument(`${what} is missing`);
  return text;
}

/** Returns the value if it is one of `choices`. Throws `BrokenDocument` otherwise. */
export function oneOf(value: unknown, choices: readonly string[], what: string): string {
  const text = required(value, what);
  if (!choices.includes(text))
    throw new BrokenDocument(`${what} is ${quoted(text)}, expected one of ${choices.join(', ')}`);
  return text;
}

/**
 * Parses a time and returns it in UTC. A time without a zone is assumed to be in UTC, regardless of the local
 * time zone, and this is reported through `note`.
 */
export function instantOf(value: unknown, what: string, note: Note = () => undefined): string {
  const text = required(value, what).trim();
  const isLocal = !/(?:[\d ][Zz]|:\d\d(?:\.\d+)? ?[-+]\d\d:?\d\d| (?:[A-Z]{2,4}T|UTC?))$/.test(text);
  const isDate = /^\d{4}-\d\d-\d\d$/.test(text);
  const date = new Date(isLocal && !isDate ? text + (/^\d{4}-\d\d-\d\dT/.test(text) ? 'Z' : ' UTC') : text);
  if (Number.isNaN(date.getTime()) || !isDayOfMonth(text))
    throw new BrokenDocument(`${what} is ${quoted(text)}, which is not a time`);
  if (isLocal) note(`${what} is ${quoted(text)} without a time zone; read as UTC`);
  return date.toISOString();
}

/** Returns false for dates such as `2026-02-30`, which `Date` turns into a day in March. */
function isDayOfMonth(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? [];
  if (day === undefined) return true;
  return new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day);
}

export function optionalInstant(value: unknown, what: string, note?: Note): string | null {
  return textOf(value) === null ? null : instantOf(value, what, note);
}

/** Returns the result of `read`. If it throws because the field is invalid, reports that and returns null. */
export function orNoted<T>(note: Note, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof BrokenDocument)) throw error;
    note(`${error.message}; read as unknown`);
    return null;
  }
}
