import { type AnyColumn, inArray, type SQL, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import { type ValuesOf, wholeNumber } from '../../core/lib/parameters.ts';
import { earliest, presentUntil } from '../database/columns.ts';
import type { Queries } from '../database/database.ts';
import { type Features, type Reading, weatherFamily, type WeatherSource } from '../family.ts';
import type { Nearby, Place } from '../places/place-index.ts';
import type { PlaceKind } from '../places/place-lists.ts';
import * as tables from '../places/place-lists.ts';
import {
  boxParameter,
  pointParameter,
  searchParameter,
  stateParameter,
  unitsParameter,
} from '../places/place-parameters.ts';
import { converterOf, distanceIn, type PlaceUnits, type UnitSystem } from '../units.ts';
import { instantOrNull, pointGeometry } from '../values.ts';
import { forecastDiscussionRows } from './discussions.ts';
import { forecastRuns } from './forecast-runs.ts';
import {
  type LocationsData,
  locationsRecord,
  type OfficesData,
  officesRecord,
  type PlaceData,
  type StationsData,
  stationsRecord,
} from './observation-fields.ts';
import { observationRows } from './observation-tables.ts';

const parameters = {
  near: pointParameter('Latitude and longitude. Sorts by distance, and adds distance and bearing.'),
  limit: wholeNumber(1, 500, 50, {
    description: 'Maximum number of places. `total` is the number of matches.',
  }),
  bbox: boxParameter(
    'Lists only places in this box: west, south, east, north. A west greater than east crosses the antimeridian.',
  ),
  state: stateParameter,
  q: searchParameter,
  units: unitsParameter,
};

/** Weather stations, each with the age of its latest observation. */
export const stations = weatherFamily({
  tables: [tables.stations, observationRows],
  endpoint: {
    path: '/stations',
    operationId: 'listStations',
    summary: 'List weather stations',
    parameters,
    maxAgeSeconds: 60,
  },
  record: stationsRecord,
  template: 'stations',
  itemNames: { stations: 'station' },
  features: ({ stations, ...about }: StationsData) => placesOf(stations, about),
  read: async (source, query): Promise<Reading<StationsData>> => {
    const { places, ...rest } = await readPlaces(source, query, newestObservation);
    return { data: { total: rest.total, stations: places, units: rest.units }, ...rest.reading };
  },
});

/** Forecast grid cells, each with the age of its latest forecast. */
export const locations = weatherFamily({
  tables: [tables.locations, forecastRuns],
  endpoint: {
    path: '/locations',
    operationId: 'listLocations',
    summary: 'List forecast grid cells',
    parameters,
    maxAgeSeconds: 60,
  },
  record: locationsRecord,
  template: 'locations',
  itemNames: { locations: 'location' },
  features: ({ locations, ...about }: LocationsData) => placesOf(locations, about),
  read: async (source, query): Promise<Reading<LocationsData>> => {
    const { places, ...rest } = await readPlaces(source, query, newestForecast);
    return { data: { total: rest.total, locations: places, units: rest.units }, ...rest.reading };
  },
});

/** Forecast offices, each with the age of its latest discussion. */
export const offices = weatherFamily({
  tables: [tables.offices, forecastDiscussionRows],
  endpoint: {
    path: '/offices',
    operationId: 'listOffices',
    summary: 'List forecast offices',
    parameters,
    maxAgeSeconds: 60,
  },
  record: officesRecord,
  template: 'offices',
  itemNames: { offices: 'office' },
  features: ({ offices, ...about }: OfficesData) => placesOf(offices, about),
  read: async (source, query): Promise<Reading<OfficesData>> => {
    const { places, ...rest } = await readPlaces(source, query, newestDiscussion);
    return { data: { total: rest.total, offices: places, units: rest.units }, ...rest.reading };
  },
});

/** The table and columns with the time of a place's latest record. */
interface Newest {
  kind: PlaceKind;
  place: PgTable;
  id: AnyColumn;
  of: PgTable;
  by: AnyColumn;
  at: AnyColumn;
  /** Conditions for the records. Each one is a separate backward search in the index of `of`. */
  among: readonly SQL[];
}

const newestObservation: Newest = {
  kind: 'stations',
  place: tables.stations,
  id: tables.stations.stationId,
  of: observationRows,
  by: observationRows.stationId,
  at: observationRows.observedAt,
  among: [sql`true`],
};
const newestForecast: Newest = {
  kind: 'locations',
  place: tables.locations,
  id: tables.locations.locationId,
  of: forecastRuns,
  by: forecastRuns.locationId,
  at: forecastRuns.generatedAt,
  among: [sql`newest.kind = 'hourly'`, sql`newest.kind = 'narrative'`],
};
const newestDiscussion: Newest = {
  kind: 'offices',
  place: tables.offices,
  id: tables.offices.office,
  of: forecastDiscussionRows,
  by: forecastDiscussionRows.office,
  at: forecastDiscussionRows.issuedAt,
  among: [sql`true`],
};

async function readPlaces(
  { database, clock, places }: WeatherSource,
  { near, limit, bbox, state, q, units }: ValuesOf<typeof parameters>,
  newest: Newest,
): Promise<{
  total: number;
  units: PlaceUnits;
  places: PlaceData[];
  reading: Omit<Reading<never>, 'data'>;
}> {
  const { index, rejected } = await places[newest.kind]();
  const matching = index.matching({ box: bbox, state, words: q });
  const found: readonly (Nearby | { place: Place })[] =
    near === null
      ? matching.slice(0, limit).map((place) => ({ place }))
      : index.nearest(near, { limit, withinKm: Infinity, among: matching });
  const now = clock.now();
  const ids = found.map(({ place }) => place.id);
  const dates = await database.one((queries) => newestOf(queries, newest, { ids, until: presentUntil(now) }));
  return {
    total: matching.length,
    places: found.map((each) => placeData(each, dates.get(each.place.id) ?? null, { now, units })),
    units: placeUnits(units),
    // There is no modification date, because ages change all the time.
    reading: { lastModified: null, ...(rejected.length === 0 ? {} : { rejected }) },
  };
}

async function newestOf(
  queries: Queries,
  { place, id, of, by, at, among }: Newest,
  { ids, until }: { ids: readonly string[]; until: Date },
): Promise<ReadonlyMap<string, Date | null>> {
  if (ids.length === 0) return new Map();
  const column = (each: AnyColumn): SQL => sql`newest.${sql.identifier(each.name)}`;
  const searches = among.map(
    (condition) => sql`(select ${column(at)} from ${of} as newest
      where ${column(by)} = ${place}.${sql.identifier(id.name)} and ${condition}
      and ${column(at)} between ${earliest.toISOString()}::timestamptz and ${until.toISOString()}::timestamptz
      order by ${column(at)} desc limit 1)`,
  );
  const newestAt = sql`greatest(${sql.join(searches, sql`, `)})`.mapWith(observationRows.observedAt);
  const rows = await queries
    .select({ id: sql<string>`${id}`, newestAt })
    .from(place)
    .where(inArray(id, [...ids]));
  return new Map(rows.map((row) => [row.id, row.newestAt]));
}

function placeData(
  found: Nearby | { place: Place },
  newestAt: Date | null,
  { now, units }: { now: Date; units: UnitSystem },
): PlaceData {
  const { id, name, latitude, longitude, elevationM, state, timeZone } = found.place;
  return {
    id,
    name,
    latitude,
    longitude,
    elevation: converterOf(units).elevation(elevationM),
    state,
    timeZone,
    distance: 'distanceKm' in found ? distanceIn(units, found.distanceKm) : null,
    bearing: 'bearingDeg' in found ? Math.round(found.bearingDeg) % 360 : null,
    newestAt: instantOrNull(newestAt),
    newestAge:
      newestAt === null ? null : Math.max(0, Math.floor((now.getTime() - newestAt.getTime()) / 60_000)),
  };
}

function placeUnits(units: UnitSystem): PlaceUnits {
  const { elevation } = converterOf(units).units;
  return { distance: units === 'si' ? 'km' : 'mi', bearing: 'deg', elevation, age: 'min' };
}

function placesOf(places: readonly PlaceData[], about: object): Features {
  return {
    about,
    places: places.map((properties) => ({
      id: properties.id,
      geometry: pointGeometry(properties.latitude, properties.longitude),
      properties,
    })),
  };
}
