import { isRecord } from '../../../core/lib/json-document.ts';
import { type Hazard } from '../../records/family-fields.ts';
import type { Marker } from '../../records/outlook-states.ts';
import { type Ring, shapeOf } from '../../shape.ts';
import { outlineOf } from './places.ts';
import {
  BrokenDocument,
  itemsOf,
  type Json,
  type Loadable,
  type Note,
  NothingToLoad,
  type OutlookArea,
  type OutlookRun,
  required,
  type Row,
  textOf,
} from './rows.ts';

const categories = ['TSTM', 'MRGL', 'SLGT', 'ENH', 'MDT', 'HIGH'];
const hazardNames: [RegExp, Hazard][] = [
  [/torn/, 'tornado'],
  [/hail/, 'hail'],
  [/wind/, 'wind'],
  [/cat/, 'categorical'],
  [/prob|any/, 'any_severe'],
];

/** Phrases that an outlook can contain instead of areas. Each of them applies to the whole hazard. */
const placeholders: readonly [RegExp, Marker][] = [
  [/predictability too low/i, 'UNKNOWN'],
  [/potential too low|less than|^no |none/i, 'NONE'],
];

/**
 * Reads the areas of one hazard in an outlook. Supports the GeoJSON from SPC, with keys in upper or lower
 * case, and the ESRI format of its map server. If an area cannot be read, this is reported through `note` and
 * recorded for the hazard; the other areas are still used.
 */
export function outlookOf(collection: Json, fileName: string, note: Note): Loadable {
  const features = itemsOf(collection['features']).map((feature): Json & { geometry: unknown } => ({
    ...lowerCase(isRecord(feature['properties']) ? feature['properties'] : feature['attributes']),
    geometry: geometryOf(feature['geometry']),
  }));
  const first = features.find((feature) => textOf(feature['issue']) !== null) ?? features[0];
  if (first === undefined) throw new NothingToLoad('the outlook has no areas and says no time');
  const name = textOf(first['idp_source']) ?? fileName;
  const day = Number(/day(\d)/.exec(name)?.[1]);
  const hazard = hazardNames.find(([pattern]) => pattern.test(name))?.[1];
  if (hazard === undefined || Number.isNaN(day))
    throw new NothingToLoad('neither the data nor the name says day and hazard');
  const run: OutlookRun = {
    day,
    issued_at: compact(first['issue']),
    valid_from: compact(first['valid']),
    valid_until: compact(first['expire']),
    forecaster: textOf(first['forecaster']),
    received_at: compact(first['issue']),
  };
  return { family: 'outlook', run, areas: areasOf(features, hazard, note) };
}

function areasOf(
  features: readonly (Json & { geometry: unknown })[],
  hazard: Hazard,
  note: Note,
): OutlookArea[] {
  const parts = new Map<string, number>();
  const unreadable = (index: number, what: string): OutlookArea => {
    note(`features[${index}]: ${what}`);
    return { ...noAreas(hazard, what, 'UNREADABLE'), part: index + 1 };
  };
  const areas = features.map((feature, index): OutlookArea => {
    const label = labelOf(feature['label']);
    const isEmpty = shapeOf(feature.geometry).state === 'empty';
    const placeholder = placeholders.find(([words]) => words.test(label ?? ''))?.[1];
    // If there is no risk, there is a single feature with an empty geometry. Its label is empty or a
    // sentence.
    if (placeholder === undefined ? isEmpty && label === null : isEmpty || feature.geometry === null)
      return noAreas(hazard, label ?? 'No areas', placeholder ?? 'NONE');
    const rank = label === null ? null : rankOf(label);
    if (label === null || rank === null)
      return unreadable(index, `the label ${JSON.stringify(label)} is not known`);
    const part = (parts.get(label) ?? 0) + 1;
    parts.set(label, part);
    const outline = outlineOf(feature.geometry, (message) => note(`features[${index}]: ${message}`));
    if (outline === null)
      note(`features[${index}]: the geometry of the area ${label} is not a polygon with closed rings`);
    return { hazard, label, part, ...rank, ...styleOf(feature), geometry: outline ?? noGeometry };
  });
  // Drop "no areas" if there are areas after all, or if some are unknown.
  const named = areas.filter(({ label }) => label !== 'NONE');
  return named.length > 0 ? oncePerKey(named) : areas.slice(0, 1);
}

/** Removes repeated placeholders of the same hazard. */
function oncePerKey(areas: readonly OutlookArea[]): OutlookArea[] {
  return [...new Map(areas.map((area) => [`${area.label} ${area.part}`, area])).values()];
}

/** An empty geometry for areas whose location is unknown, and for rows about a whole hazard. */
const noGeometry = { type: 'MultiPolygon', coordinates: [] };

/** Creates a row for a hazard without areas, which says so in the provider's words. */
export function noAreas(hazard: Hazard, words: string, label: Marker = 'NONE'): OutlookArea {
  const isCategory = hazard === 'categorical';
  return {
    hazard,
    label,
    part: 1,
    kind: isCategory ? 'category' : 'probability',
    rank: 0,
    probability_pct: null,
    label_text: words,
    stroke: null,
    fill: null,
    geometry: noGeometry,
  };
}

function lowerCase(map: unknown): Json {
  return Object.fromEntries(
    Object.entries(isRecord(map) ? map : {}).map(([key, value]) => [key.toLowerCase(), value]),
  );
}

/** Returns a label in SPC's notation: `HIGH` or `0.10`. */
function labelOf(value: unknown): string | null {
  if (typeof value === 'number') return value.toFixed(2);
  const text = textOf(value)?.trim() ?? null;
  if (text === null) return null;
  const [, percent] = /^(\d{1,3}) ?%$/.exec(text) ?? [];
  if (percent !== undefined) return (Number(percent) / 100).toFixed(2);
  return /^[a-z]+\d?$/i.test(text) ? text.toUpperCase() : text;
}

/**
 * Derives the kind and order from the label. The number in `dn` is ambiguous: it is 2 for both CIG1 and 2 %.
 */
function rankOf(label: string): { kind: string; rank: number; probability_pct: number | null } | null {
  if (categories.includes(label))
    return { kind: 'category', rank: categories.indexOf(label) + 1, probability_pct: null };
  const intensity = label === 'SIGN' ? '1' : /^CIG([1-3])$/.exec(label)?.[1];
  if (intensity !== undefined) return { kind: 'intensity', rank: Number(intensity), probability_pct: null };
  const percent = Math.round(Number(label) * 100);
  if (!(percent > 0 && percent <= 100)) return null;
  return { kind: 'probability', rank: percent, probability_pct: percent };
}

function styleOf(feature: Json): Row {
  return {
    label_text: textOf(feature['label2']),
    stroke: textOf(feature['stroke']),
    fill: textOf(feature['fill']),
  };
}

function geometryOf(geometry: unknown): unknown {
  if (!isRecord(geometry) || !Array.isArray(geometry['rings'])) return geometry;
  const rings: unknown[] = geometry['rings'];
  return rings.every(Array.isArray) ? polygonsOf(rings as Ring[]) : null;
}

/**
 * Groups the rings of an ESRI polygon, which are not nested. Clockwise rings are outlines, and the holes of
 * each one come right after it.
 */
function polygonsOf(rings: Ring[]): Json {
  const polygons: Ring[][] = [];
  for (const ring of rings) {
    const last = polygons.at(-1);
    if (last === undefined || isClockwise(ring)) polygons.push([ring]);
    else last.push(ring);
  }
  return { type: 'MultiPolygon', coordinates: polygons };
}

function isClockwise(ring: Ring): boolean {
  return (
    ring.reduce((sum, [x, y], index) => {
      const [nextX, nextY] = ring[(index + 1) % ring.length] ?? [x, y];
      return sum + (nextX - x) * (nextY + y);
    }, 0) > 0
  );
}

/** Parses a UTC time without separators: `202605171200`. */
function compact(value: unknown): string {
  const [, year, month, day, hour, minute] =
    /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)$/.exec(
      required(typeof value === 'number' ? String(value) : value, 'a time of the outlook'),
    ) ?? [];
  if (minute === undefined) throw new BrokenDocument('a time of the outlook is not YYYYMMDDHHmm');
  return `${year}-${month}-${day}T${hour}:${minute}:00.000Z`;
}
