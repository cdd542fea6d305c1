import { timeZoneCheck } from '../../rows/field-checks.ts';
import { BrokenDocument, readEach } from './faults.ts';
import { coordinatesOf } from './observations.ts';
import { outlineOf } from './outlines.ts';
import { quantity } from './quantities.ts';
import {
  isMap,
  quoted,
  required,
  textOf,
  type Json,
  type Loadable,
  type Note,
  type PlaceTable,
} from './rows.ts';
import { ugcPattern } from './zone-keys.ts';
import { timeZoneAt } from '../../places/time-zone.ts';

/** Places as api.weather.gov lists them: stations, and zones with their outlines. */

export function isStation(properties: Json): boolean {
  return 'stationIdentifier' in properties;
}

export function isZone(properties: Json): boolean {
  return properties['@type'] === 'wx:Zone';
}

/** The state of a station is that of the county or forecast zone in which it lies. */
export function stationOf(feature: Json, note: Note): PlaceTable['rows'][number] {
  const p = isMap(feature['properties']) ? feature['properties'] : {};
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
    // By coordinates alone, some islands have the zone of the country next to them.
    time_zone:
      timeZoneCheck(p['timeZone']) === null ? textOf(p['timeZone']) : timeZoneAt(latitude_deg, longitude_deg),
    state: state ?? null,
  };
}

export function isOffice(document: Json): boolean {
  return document['@type'] === 'GovernmentOrganization' && textOf(document['id']) !== null;
}

/** Name and state of an office: where it is, its document does not say. */
export function officeOf(document: Json): PlaceTable['rows'][number] {
  const office = required(document['id'], 'id');
  if (!/^[A-Z]{3}$/.test(office)) throw new BrokenDocument(`id is ${quoted(office)}, which is no office`);
  const address = isMap(document['address']) ? document['address'] : {};
  const state = textOf(address['addressRegion']);
  return {
    office,
    name: textOf(document['name']),
    state: state !== null && /^[A-Z]{2}$/.test(state) ? state : null,
  };
}

/**
 * Fire-weather zones have codes that public zones have too, and lie elsewhere: they have a table of their
 * own.
 */
export function zoneTable({ type }: Json): 'zones' | 'fire_zones' {
  return type === 'fire' ? 'fire_zones' : 'zones';
}

export function zoneOf(feature: Json, note: Note): PlaceTable['rows'][number] {
  const p = isMap(feature['properties']) ? feature['properties'] : {};
  const id = required(p['id'], 'properties.id');
  if (!ugcPattern.test(id))
    throw new BrokenDocument(`properties.id is ${quoted(id)}, which is no code of a zone`);
  const { geometry } = feature;
  if (!isMap(geometry))
    throw new BrokenDocument(`${id} has no geometry: the list has them with include_geometry=true`);
  const outline = outlineOf(geometry, note);
  if (outline === null) throw new BrokenDocument(`the geometry of ${id} is no polygon with closed rings`);
  return { ugc: id, name: textOf(p['name']), geometry: outline };
}

/** The rows of a list that can be read, each place once, by their tables. */
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
    const table = tableOf(isMap(feature['properties']) ? feature['properties'] : {});
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
