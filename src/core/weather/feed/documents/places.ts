import { geometryCheck } from '../../rows/field-checks.ts';
import { BrokenDocument, readEach } from './faults.ts';
import { coordinatesOf, quantity } from './observations.ts';
import { isMap, quoted, required, textOf, type Json, type Loadable, type PlaceTable } from './rows.ts';
import { timeZoneAt } from '../../places/time-zone.ts';

/** Places as api.weather.gov lists them: stations, and zones with their outlines. */

const ugc = /^[A-Z]{2}[CZ]\d{3}$/;

export function isStation(properties: Json): boolean {
  return 'stationIdentifier' in properties;
}

export function isZone(properties: Json): boolean {
  return properties['@type'] === 'wx:Zone';
}

/** The state of a station is that of the county or forecast zone in which it lies. */
export function stationOf(feature: Json): PlaceTable['rows'][number] {
  const p = isMap(feature['properties']) ? feature['properties'] : {};
  const station_id = required(p['stationIdentifier'], 'properties.stationIdentifier').toUpperCase();
  const [longitude_deg, latitude_deg] = coordinatesOf(feature['geometry']);
  const [state] = [p['county'], p['forecast']].flatMap(
    (zone) => /\/zones\/\w+\/([A-Z]{2})[CZ]\d{3}$/.exec(textOf(zone) ?? '')?.[1] ?? [],
  );
  return {
    station_id,
    name: textOf(p['name']) ?? station_id,
    latitude_deg,
    longitude_deg,
    elevation_m: quantity(p['elevation']),
    time_zone: timeZoneAt(latitude_deg, longitude_deg),
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

export function zoneOf(feature: Json): PlaceTable['rows'][number] {
  const p = isMap(feature['properties']) ? feature['properties'] : {};
  const id = required(p['id'], 'properties.id');
  if (!ugc.test(id)) throw new BrokenDocument(`properties.id is ${quoted(id)}, which is no code of a zone`);
  // Their codes are those of forecast zones, which lie elsewhere.
  if (p['type'] === 'fire') throw new BrokenDocument(`${id} is a zone of fire weather`);
  const { geometry } = feature;
  if (!isMap(geometry))
    throw new BrokenDocument(`${id} has no geometry: the list has them with include_geometry=true`);
  if (geometryCheck(geometry) !== null || geometry['type'] === 'Point')
    throw new BrokenDocument(`the geometry of ${id} is no polygon with closed rings`);
  return { ugc: id, name: textOf(p['name']), geometry };
}

/** The rows of a list that can be read, each place once. */
export function placesOf(
  features: readonly Json[],
  leftOut: string[],
  { table, read }: { table: PlaceTable['table']; read: (feature: Json) => PlaceTable['rows'][number] },
): Loadable {
  const key = placeKeys[table];
  const seen = new Set<string>();
  const rows = readEach(features, 'features', leftOut, (feature) => {
    const row = read(feature);
    const id = textOf(row[key]) ?? '';
    if (seen.has(id)) throw new BrokenDocument(`${id} is in the list before`);
    seen.add(id);
    return row;
  });
  return { family: 'places', table, rows };
}

export const placeKeys: Readonly<Record<PlaceTable['table'], string>> = {
  stations: 'station_id',
  locations: 'location_id',
  offices: 'office',
  zones: 'ugc',
};
