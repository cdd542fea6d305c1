/**
 * What the feeder reads out of a file: rows by the names of the contract's columns, and which of them belong
 * together.
 */
export type Value = string | number | boolean | null | readonly string[] | Readonly<Record<string, unknown>>;
export type Row = Record<string, Value>;

export type Loadable =
  | { family: 'observation'; station: Row; observation: Row; weather: Row[]; clouds: Row[] }
  | { family: 'alerts'; fetchedAt: string; sourceUpdatedAt: string | null; alerts: Alert[] }
  | { family: 'forecast'; run: Row; periods: Row[] }
  | { family: 'forecast_discussion'; discussion: Row; sections: Row[] }
  | { family: 'stories'; office: string; fetchedAt: string; stories: Row[] }
  | { family: 'outlook'; run: OutlookRun; areas: Row[] }
  | { family: 'outlook_discussion'; run: OutlookRun; discussion: Row };

export interface Alert {
  alert: Row & { alert_id: string };
  areas: Row[];
  references: Row[];
  /** Whether the poll says it is active, and not only known. */
  listed: boolean;
}

export interface OutlookRun {
  day: number;
  issued_at: string;
  valid_from: string;
  valid_until: string;
  forecaster: string | null;
}

/** A file that holds nothing to load, and why. */
export class NothingToLoad extends Error {}

export type Json = Record<string, unknown>;

export function isMap(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function mapsOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isMap) : [];
}

export function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

/** The text, or null where it is none or empty. */
export function textOf(value: unknown): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value : null;
}

export function required(value: unknown, what: string): string {
  const text = textOf(value);
  if (text === null) throw new NothingToLoad(`${what} is missing`);
  return text;
}

/** An instant in UTC from any text with a zone. */
export function instantOf(value: unknown, what: string): string {
  const date = new Date(required(value, what));
  if (Number.isNaN(date.getTime())) throw new NothingToLoad(`${what} is not a time`);
  return date.toISOString();
}

export function optionalInstant(value: unknown): string | null {
  return textOf(value) === null ? null : instantOf(value, 'a time');
}

/** Names of zones are not in the data: near enough by place, for display only. */
export function timeZoneAt(longitude: number): string {
  if (longitude < -150.5 && longitude > -161) return 'Pacific/Honolulu';
  if (longitude < -130) return 'America/Anchorage';
  if (longitude < -115) return 'America/Los_Angeles';
  if (longitude < -102) return 'America/Denver';
  return longitude < -85.5 ? 'America/Chicago' : 'America/New_York';
}
