import { geometryCheck } from '../../rows/field-checks.ts';
import { BrokenDocument, NothingToLoad } from './faults.ts';
import {
  isMap,
  mapsOf,
  required,
  textOf,
  type Json,
  type Loadable,
  type OutlookArea,
  type OutlookRun,
  type Row,
} from './rows.ts';

const categories = ['TSTM', 'MRGL', 'SLGT', 'ENH', 'MDT', 'HIGH'];
const hazards: [RegExp, string][] = [
  [/torn/, 'tornado'],
  [/hail/, 'hail'],
  [/wind/, 'wind'],
  [/cat/, 'categorical'],
  [/prob|any/, 'any_severe'],
];

/**
 * Areas of one outlook, from SPC's GeoJSON (upper- or lower-case keys) or from the ESRI form of its map
 * server.
 */
export function outlookOf(collection: Json, fileName: string): Loadable {
  const features = mapsOf(collection['features']).map((feature): Json & { geometry: Json } => ({
    ...lowerCase(isMap(feature['properties']) ? feature['properties'] : feature['attributes']),
    geometry: geometryOf(feature['geometry']),
  }));
  const [first] = features;
  if (first === undefined) throw new NothingToLoad('the outlook has no areas and says no time');
  const name = textOf(first['idp_source']) ?? fileName;
  const day = Number(/day(\d)/.exec(name)?.[1]);
  const hazard = hazards.find(([pattern]) => pattern.test(name))?.[1];
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
  const parts = new Map<string, number>();
  const areas = features.filter(isArea).map((feature): OutlookArea => {
    const label = required(feature['label'], 'the label of an area');
    const part = (parts.get(label) ?? 0) + 1;
    parts.set(label, part);
    if (geometryCheck(feature.geometry) !== null)
      throw new BrokenDocument(`the geometry of the area ${label} is no polygon with closed rings`);
    return { hazard, label, part, ...rankOf(label), ...styleOf(feature), geometry: feature.geometry };
  });
  return { family: 'outlook', run, areas };
}

/** A hazard without any risk is one feature without a label and with an empty collection for its geometry. */
function isArea({ label, geometry }: Json & { geometry: Json }): boolean {
  return textOf(label) !== null || geometry['type'] !== 'GeometryCollection';
}

function lowerCase(map: unknown): Json {
  return Object.fromEntries(
    Object.entries(isMap(map) ? map : {}).map(([key, value]) => [key.toLowerCase(), value]),
  );
}

/** The numeric `dn` is not unique (CIG1 and 2 % both carry 2), so kind and order come from the label. */
function rankOf(label: string): { kind: string; rank: number; probability_pct: number | null } {
  if (categories.includes(label))
    return { kind: 'category', rank: categories.indexOf(label) + 1, probability_pct: null };
  const intensity = label === 'SIGN' ? '1' : /^CIG([1-3])$/.exec(label)?.[1];
  if (intensity !== undefined) return { kind: 'intensity', rank: Number(intensity), probability_pct: null };
  const percent = Math.round(Number(label) * 100);
  if (!(percent > 0 && percent <= 100))
    throw new BrokenDocument(`the label ${JSON.stringify(label)} is not known`);
  return { kind: 'probability', rank: percent, probability_pct: percent };
}

function styleOf(feature: Json): Row {
  return {
    label_text: textOf(feature['label2']),
    stroke: textOf(feature['stroke']),
    fill: textOf(feature['fill']),
  };
}

function geometryOf(geometry: unknown): Json {
  if (!isMap(geometry)) throw new BrokenDocument('an area has no geometry');
  return Array.isArray(geometry['rings']) ? polygonsOf(geometry['rings'] as Ring[]) : geometry;
}

type Ring = [number, number][];

/** ESRI lists rings flat: clockwise ones are outlines, and each hole follows its outline. */
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

/** `202605171200`, in UTC. */
function compact(value: unknown): string {
  const [, year, month, day, hour, minute] =
    /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)$/.exec(required(value, 'a time of the outlook')) ?? [];
  if (minute === undefined) throw new BrokenDocument('a time of the outlook is not YYYYMMDDHHmm');
  return `${year}-${month}-${day}T${hour}:${minute}:00.000Z`;
}
