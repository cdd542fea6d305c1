import { isRecord } from '../../../core/lib/json-document.ts';
import { quoted } from '../../../core/lib/text.ts';
import { geometryCheck, timeZoneCheck } from '../../database/cleaner.ts';
import {
  isInUnitedStates,
  timeZoneAt,
  type ZoneKey,
  zoneKey,
  type ZoneKind,
  zoneKind,
} from '../../places/position.ts';
import { middleOf } from '../../shape.ts';
import { coordinatesOf } from './observations.ts';
import { quantity } from './quantities.ts';
import {
  BrokenDocument,
  type Json,
  type Loadable,
  type Note,
  type PlaceTable,
  readEach,
  required,
  textOf,
} from './rows.ts';

/** Reads places from the documents of api.weather.gov: stations, offices, and zones with their outlines. */

export function isStation(properties: Json): boolean {
  return 'stationIdentifier' in properties;
}

export function isZone(properties: Json): boolean {
  return properties['@type'] === 'wx:Zone';
}

/** Reads a station. Its state is the one that its county or forecast zone is in. */
export function stationOf(feature: Json, note: Note): PlaceTable['rows'][number] {
  const p = isRecord(feature['properties']) ? feature['properties'] : {};
  const station_id = required(p['stationIdentifier'], 'properties.stationIdentifier').toUpperCase();
  const [longitude_deg, latitude_deg] = coordinatesOf(feature['geometry'], note);
  const [state] = [p['county'], p['forecast']].flatMap(
    (zone) => /\/zones\/\w+\/([A-Z]{2})[CZ]\d{3}$/.exec(textOf(zone) ?? '')?.[1] ?? [],
  );
  return {
    station_id,
    name: textOf(p['name']) ?? station_id,
    latitude_deg,
    longitude_deg,
    elevation_m: quantity(p['elevation'], 'elevation_m', 'properties.elevation', note),
    // Prefer the time zone in the document. For some islands, the one derived from the coordinates is that of
    // the neighboring country.
    time_zone:
      timeZoneCheck(p['timeZone']) === null ? textOf(p['timeZone']) : timeZoneAt(latitude_deg, longitude_deg),
    state: state ?? null,
  };
}

export function isOffice(document: Json): boolean {
  return document['@type'] === 'GovernmentOrganization' && textOf(document['id']) !== null;
}

/** Reads the name and state of an office. The document does not contain its position. */
export function officeOf(document: Json): PlaceTable['rows'][number] {
  const office = required(document['id'], 'id');
  if (!/^[A-Z]{3}$/.test(office)) throw new BrokenDocument(`id is ${quoted(office)}, which is not an office`);
  const address = isRecord(document['address']) ? document['address'] : {};
  const state = textOf(address['addressRegion']);
  return {
    office,
    name: textOf(document['name']),
    state: state !== null && /^[A-Z]{2}$/.test(state) ? state : null,
  };
}

/**
 * Fire weather zones have their own table, because they have the same codes as public zones but different
 * outlines.
 */
export function zoneTable({ type }: Json): 'zones' | 'fire_zones' {
  return type === 'fire' ? 'fire_zones' : 'zones';
}

export function zoneOf(feature: Json, note: Note): PlaceTable['rows'][number] {
  const p = isRecord(feature['properties']) ? feature['properties'] : {};
  const id = required(p['id'], 'properties.id');
  if (!ugcPattern.test(id))
    throw new BrokenDocument(`properties.id is ${quoted(id)}, which is not a zone code`);
  const { geometry } = feature;
  if (!isRecord(geometry))
    throw new BrokenDocument(`${id} has no geometry: the list has them with include_geometry=true`);
  const outline = outlineOf(geometry, note);
  if (outline === null) throw new BrokenDocument(`the geometry of ${id} is not a polygon with closed rings`);
  return { ugc: id, name: textOf(p['name']), geometry: outline };
}

/**
 * Reads the places in a list, and returns the rows by table. Places that cannot be read are skipped, and
 * duplicates are removed.
 */
export function placesOf(
  features: readonly Json[],
  leftOut: string[],
  {
    tableOf,
    read,
  }: {
    tableOf: (properties: Json) => PlaceTable['table'];
    read: (feature: Json, note: Note) => PlaceTable['rows'][number];
  },
): Loadable[] {
  const seen = new Set<string>();
  const found = readEach(features, 'features', leftOut, (feature, note) => {
    const table = tableOf(isRecord(feature['properties']) ? feature['properties'] : {});
    const row = read(feature, note);
    const id = textOf(row[placeKeys[table]]) ?? '';
    if (seen.has(`${table} ${id}`)) throw new BrokenDocument(`${id} is in the list before`);
    seen.add(`${table} ${id}`);
    return { table, row };
  });
  return [...new Set(found.map(({ table }) => table))].map((table) => ({
    family: 'places',
    table,
    rows: found.filter((one) => one.table === table).map(({ row }) => row),
  }));
}

export const placeKeys: Readonly<Record<PlaceTable['table'], string>> = {
  stations: 'station_id',
  locations: 'location_id',
  offices: 'office',
  zones: 'ugc',
  fire_zones: 'ugc',
};

/**
 * Returns a polygon, multipolygon or collection, if all of its rings are closed. Returns null for any other
 * geometry. If the outline is in the United States only after swapping latitude and longitude, they are
 * swapped and this is reported through `note`. Otherwise, the alert would end up in Antarctica.
 */
export function outlineOf(geometry: unknown, note: Note): Json | null {
  if (!isRecord(geometry)) return null;
  const isKnown = isOutline(geometry);
  if (isKnown && isOfUnitedStates(geometry)) return geometry;
  const swapped = swappedOf(geometry);
  if (!isRecord(swapped) || !isOutline(swapped) || !isOfUnitedStates(swapped))
    return isKnown ? geometry : null;
  note('geometry.coordinates have latitude and longitude swapped');
  return swapped;
}

function isOutline(geometry: Json): boolean {
  return geometry['type'] !== 'Point' && geometryCheck(geometry) === null;
}

function isOfUnitedStates(geometry: Json): boolean {
  const middle = middleOf(geometry);
  return middle !== null && isInUnitedStates(middle);
}

/** Swaps the coordinates of every position in a geometry. */
function swappedOf(value: unknown): unknown {
  if (Array.isArray(value)) {
    const [first, second, ...rest] = value as unknown[];
    return typeof first === 'number' ? [second, first, ...rest] : value.map(swappedOf);
  }
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, swappedOf(inner)]));
}

/** A UGC code: two letters for the state or marine area, C for a county or Z for a zone, and three digits. */
const ugcPattern = /^[A-Z]{2}[CZ]\d{3}$/;

/**
 * Parses the URL of a zone in a message: `https://api.weather.gov/zones/fire/COZ040`. Returns null if it is
 * not one.
 */
function affectedZone(url: string): { ugc: string; kind: ZoneKind } | null {
  const [, type = '', code = ''] = /\/zones\/(\w+)\/(\w+)\/?$/i.exec(url.trim()) ?? [];
  const ugc = code.toUpperCase();
  return ugcPattern.test(ugc) ? { ugc, kind: zoneKind(ugc, type.toLowerCase()) } : null;
}

/**
 * Returns the zones that an alert applies to, by UGC code. The kind of zone comes from the URL in
 * `affectedZones` or, without one, from the kind of product. Invalid codes and URLs are returned in
 * `unreadable`. The tables can only store one zone per code for an alert; if there are several kinds, the
 * others are returned in `doubled`.
 */
export function areaCodes(
  ugcs: readonly string[],
  affected: readonly string[],
  isFireProduct: boolean,
): { areas: ReadonlyMap<string, ZoneKind>; doubled: ZoneKey[]; unreadable: string[] } {
  const areas = new Map<string, ZoneKind>();
  const doubled = new Set<ZoneKey>();
  const unreadable: string[] = [];
  for (const url of affected) {
    const zone = affectedZone(url);
    if (zone === null) unreadable.push(url);
    else if ((areas.get(zone.ugc) ?? zone.kind) === zone.kind) areas.set(zone.ugc, zone.kind);
    else doubled.add(zoneKey(zone.ugc, zone.kind));
  }
  for (const code of ugcs) {
    const ugc = code.trim().toUpperCase();
    if (!ugcPattern.test(ugc)) unreadable.push(code);
    else if (!areas.has(ugc)) areas.set(ugc, zoneKind(ugc, isFireProduct ? 'fire' : ''));
  }
  return { areas, doubled: [...doubled], unreadable };
}

/**
 * Reports whether a product is for fire weather zones. These have the same codes as public zones, but are
 * different zones.
 */
export function isFireProduct(event: string, vtec: readonly string[]): boolean {
  return (
    vtec.some((code) => /\.FW\.[A-Z]\./.test(code)) || /^(red flag|fire weather|extreme fire)/i.test(event)
  );
}

/**
 * Returns the office that issued a product. It is part of the product identifier: `AFDSJU` was issued by SJU.
 * Otherwise, it is taken from the VTEC codes.
 */
export function officeOfProduct(awipsId: unknown, vtec: readonly string[]): string | null {
  const [, office] = /^[A-Z0-9]{3}([A-Z0-9]{3})$/.exec(textOf(awipsId)?.trim() ?? '') ?? [];
  return office ?? /^\/\w\.\w{3}\.\w(\w{3})\./.exec(vtec[0] ?? '')?.[1] ?? null;
}
