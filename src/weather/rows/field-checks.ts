import { earliest, latest } from './columns.ts';
import { isPosition, shapeOf } from '../shape.ts';
import type { RejectionReason } from './rejections.ts';

/** What is wrong with a value, which is not null; null if nothing is. Pure. */
export type FieldCheck = (value: unknown) => RejectionReason | null;

/**
 * What can be, by the unit at the end of the name of a column: limits of the absurd, far beyond every record.
 * What is merely unlikely is the business of quality letters and of `currentConditions`.
 */
const unitLimits: readonly [suffix: string, least: number, most: number][] = [
  ['latitude_deg', -90, 90],
  ['longitude_deg', -180, 180],
  ['_deg', 0, 360],
  // Sensors do give 149 °C, with the letter that refuses it.
  ['_c', -150, 200],
  ['_pct', 0, 100.5],
  ['_kmh', 0, 600],
  ['_pa', 75_000, 115_000],
  ['elevation_m', -1000, 10_000],
  ['_m', 0, 1_000_000],
  ['_mm', 0, 5000],
];

/** For a number in a column of this name: finite, and what its unit allows. */
export function numberCheck(columnName: string): FieldCheck {
  const [, least, most] = unitLimits.find(([suffix]) => columnName.endsWith(suffix)) ?? [
    '',
    -Infinity,
    Infinity,
  ];
  return (value) => {
    if (typeof value !== 'number' || !Number.isFinite(value)) return 'not_finite';
    return value < least || value > most ? 'out_of_range' : null;
  };
}

export function instantCheck(value: unknown): RejectionReason | null {
  return value instanceof Date && value >= earliest && value < latest ? null : 'bad_instant';
}

/** For the moment of something that has happened: `until` at the latest. */
export function pastCheck(until: Date): FieldCheck {
  return (value) =>
    instantCheck(value) ?? (value instanceof Date && value.getTime() > until.getTime() ? 'in_future' : null);
}

export function oneOf(values: readonly string[]): FieldCheck {
  return (value) => (typeof value === 'string' && values.includes(value) ? null : 'unknown_value');
}

export function matches(pattern: RegExp): FieldCheck {
  return (value) => (typeof value === 'string' && pattern.test(value) ? null : 'unknown_value');
}

/** A JSON object. */
export function objectCheck(value: unknown): RejectionReason | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'bad_json';
}

/** A JSON object of short texts, such as quality letters. */
export function textsCheck(value: unknown): RejectionReason | null {
  if (objectCheck(value) !== null) return 'bad_json';
  return Object.values(value as object).every((text) => typeof text === 'string') ? null : 'bad_json';
}

const zones = new Map<unknown, boolean>();
const mostZones = 2000;

/** The name of a time zone that this runtime knows. */
export function timeZoneCheck(value: unknown): RejectionReason | null {
  let known = zones.get(value);
  if (known === undefined) {
    known = typeof value === 'string' && value !== '' && isTimeZone(value);
    if (zones.size < mostZones) zones.set(value, known);
  }
  return known ? null : 'unknown_time_zone';
}

function isTimeZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** A GeoJSON point, polygon, multipolygon or collection of polygons: closed rings of positions on Earth. */
export function geometryCheck(value: unknown): RejectionReason | null {
  if (objectCheck(value) !== null) return 'bad_geometry';
  const { type, coordinates } = value as { type?: unknown; coordinates?: unknown };
  const isKnown = type === 'Point' ? isPosition(coordinates) : shapeOf(value).state === 'known';
  return isKnown ? null : 'bad_geometry';
}
