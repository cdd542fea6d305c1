import { and, desc, eq, gt, lte, sql } from 'drizzle-orm';
import type { Clock } from '../../core/lib/clock.ts';
import { atMostOneOf, identifiers, onlyWith, type ValuesOf, wholeNumber } from '../../core/lib/parameters.ts';
import type { NoteRejection } from '../database/cleaner.ts';
import { firstClean, presentUntil, type RowRange } from '../database/columns.ts';
import type { Queries, WeatherDatabase } from '../database/database.ts';
import {
  type Features,
  newNotes,
  noReading,
  type Reading,
  reading,
  resolvedPlace,
  weatherFamily,
  type WeatherSource,
} from '../family.ts';
import { nearestHaving, type SearchArea } from '../places/place-index.ts';
import { stations } from '../places/place-lists.ts';
import {
  pointParameter,
  radiusParameter,
  radiusRule,
  stationPattern,
  unitsParameter,
} from '../places/place-parameters.ts';
import { type Converter, converterOf } from '../units.ts';
import { type ObservationData, type ObservationsData, observationsRecord } from './observation-fields.ts';
import {
  measuredColumns,
  observationData,
  type ObservationRow,
  stationFeatures,
} from './observation-record.ts';
import {
  cleanedObservation,
  observationClouds,
  observationRows,
  observationTable,
  observationWeather,
  requireStations,
  selectObservations,
  stationsHaving,
} from './observation-tables.ts';

const parameters = {
  station: identifiers(stationPattern, 50, 'a station, such as KNYC', {
    description:
      'One station, or up to 50, comma-separated. Default: the station with the newest observation.',
    example: 'KNYC',
  }),
  point: pointParameter('Latitude and longitude. Uses the nearest station with data within `radius`.'),
  radius: radiusParameter,
  maxAge: wholeNumber(10, 1440, 180, {
    description: 'Maximum age of the observation for `point`, in minutes.',
  }),
  units: unitsParameter,
};

/** The latest observation of one or more stations, of the station nearest to a point, or of any station. */
export const observations = weatherFamily({
  tables: [stations, observationRows, observationWeather, observationClouds],
  endpoint: {
    path: '/observations',
    operationId: 'getObservation',
    summary: 'Get the newest observation',
    parameters,
    rules: [atMostOneOf('station', 'point'), radiusRule, onlyWith('maxAge', 'point')],
    maxAgeSeconds: 60,
  },
  record: observationsRecord,
  template: 'observations',
  itemNames: {
    observations: 'observation',
    missing: 'station',
    presentWeather: 'weather',
    clouds: 'cloud',
  },
  features: (data: ObservationData | ObservationsData) =>
    'observations' in data ? allFeatures(data) : stationFeatures(data),
  table: observationTable,
  read: readObservation,
});

function allFeatures({ observations, missing }: ObservationsData): Features {
  const each = observations.map(stationFeatures);
  return { about: { missing, ...each[0]?.about }, places: each.flatMap(({ places }) => places) };
}

function readObservation(
  source: WeatherSource,
  { station, point, radius, maxAge, units }: ValuesOf<typeof parameters>,
): Promise<Reading<ObservationData | ObservationsData>> {
  const convert = converterOf(units);
  if (point !== null) return readNearest(source, { point, radiusKm: radius }, { maxAge, convert });
  return station.length > 1
    ? readEach(source, station, convert)
    : readNewest(source, station[0] ?? null, convert);
}

async function readNewest(
  { database, clock }: WeatherSource,
  station: string | null,
  convert: Converter,
): Promise<Reading<ObservationData>> {
  const notes = newNotes();
  const row = await database.one((queries) => newestClean(queries, station, clock.now(), notes.note));
  // Check this last. If a station has an observation, it always exists.
  if (row === null && station !== null) await database.one((queries) => requireStations(queries, [station]));
  if (row === null) return noReading(notes);
  const data = observationData(row, convert);
  return reading({ data, lastModified: row.receivedAt, asOf: row.observedAt }, notes);
}

async function readEach(
  { database, clock }: WeatherSource,
  asked: readonly string[],
  convert: Converter,
): Promise<Reading<ObservationsData>> {
  const notes = newNotes();
  const now = clock.now();
  const rows = await database.snapshot(async (queries) => {
    await requireStations(queries, asked);
    return Promise.all(asked.map((station) => newestClean(queries, station, now, notes.note)));
  });
  const found = rows.filter((row) => row !== null);
  const data = {
    observations: found.map((row) => observationData(row, convert)),
    missing: asked.filter((_station, index) => rows[index] === null),
  };
  const newest = Math.max(...found.map(({ observedAt }) => observedAt.getTime()));
  return found.length === 0
    ? { ...noReading(notes), data }
    : reading({ data, lastModified: null, asOf: new Date(newest) }, notes);
}

/** Returns the latest observation from the nearest station that has reported any values. */
async function readNearest(
  { database, clock, places }: WeatherSource,
  searchArea: SearchArea,
  { maxAge, convert }: { maxAge: number; convert: Converter },
): Promise<Reading<ObservationData>> {
  const now = clock.now();
  const within = { after: new Date(now.getTime() - maxAge * 60_000), until: presentUntil(now) };
  const { index } = await places.stations();
  const notes = newNotes();
  return database.snapshot(async (queries) => {
    const having = (ids: readonly string[]): Promise<ReadonlySet<string>> =>
      stationsHaving(queries, ids, within, { isMeasured: true });
    // Try several stations, because all values of the nearest one may turn out to be unusable.
    for (const near of await nearestHaving(index, searchArea, { limit: 10, having })) {
      const rows = await selectObservations(
        queries,
        and(
          eq(observationRows.stationId, near.place.id),
          gt(observationRows.observedAt, within.after),
          lte(observationRows.observedAt, within.until),
        ),
      ).orderBy(desc(observationRows.observedAt));
      for (const row of rows) {
        const clean = cleanedObservation(row, notes.note, now);
        if (clean === null || measuredColumns.every((column) => clean[column] === null)) continue;
        const found = { data: observationData(clean, convert), lastModified: null, asOf: clean.observedAt };
        return { ...reading(found, notes), resolved: resolvedPlace('station', near) };
      }
    }
    return noReading(notes);
  });
}

function newestClean(
  queries: Queries,
  station: string | null,
  now: Date,
  note: NoteRejection,
): Promise<ObservationRow | null> {
  return firstClean(
    now,
    async (page) => pageOf(queries, station, page),
    (row) => cleanedObservation(row, note, now),
  );
}

function pageOf(queries: Queries, station: string | null, { limit, offset, until }: RowRange) {
  const { ofAny, ofStation } = prepared(queries);
  if (offset === 0 && until === null)
    return station === null ? ofAny.execute() : ofStation.execute({ station });
  const isOf = station === null ? undefined : eq(observationRows.stationId, station);
  return selectObservations(
    queries,
    and(isOf, until === null ? undefined : lte(observationRows.observedAt, until)),
  )
    .orderBy(desc(observationRows.observedAt), observationRows.stationId)
    .limit(limit)
    .offset(offset);
}

const statements = new WeakMap<Queries, ReturnType<typeof prepareLatest>>();

/**
 * Returns prepared statements for a database. Building one takes longer than running it, so they are built
 * only once.
 */
function prepared(queries: Queries): ReturnType<typeof prepareLatest> {
  const known = statements.get(queries) ?? prepareLatest(queries);
  statements.set(queries, known);
  return known;
}

function prepareLatest(queries: Queries) {
  return {
    ofAny: selectObservations(queries)
      .orderBy(desc(observationRows.observedAt), observationRows.stationId)
      .limit(1)
      .prepare('observations_of_any'),
    ofStation: selectObservations(queries, eq(observationRows.stationId, sql.placeholder('station')))
      .orderBy(desc(observationRows.observedAt))
      .limit(1)
      .prepare('observations_of_station'),
  };
}

/**
 * Returns the latest observation of each station, if it is after `since`, by station id. Values are in the
 * units of the table. A single statement reads all stations. Invalid observations are left out.
 */
export type NewestObservations = (
  stations: readonly string[],
  since: Date,
) => Promise<ReadonlyMap<string, ObservationData>>;

export function openNewestObservations(database: WeatherDatabase, clock: Clock): NewestObservations {
  return async (stations, since) => {
    const now = clock.now();
    // For each station, searches backward in the primary key, and then gets the row.
    const newest = sql`(${observationRows.stationId}, ${observationRows.observedAt}) in (
      select o.station_id, o.observed_at
      from jsonb_array_elements_text(${JSON.stringify(stations)}::text::jsonb) as wanted(id)
      cross join lateral (select station_id, observed_at from ${observationRows} as n
        where n.station_id = wanted.id and n.observed_at > ${since.toISOString()}::timestamptz
        and n.observed_at <= ${presentUntil(now).toISOString()}::timestamptz
        order by n.observed_at desc limit 1) as o)`;
    const rows = await database.one(async (queries) => selectObservations(queries, newest));
    return new Map(
      rows.flatMap((row) => {
        const clean = cleanedObservation(row, () => undefined, now);
        return clean === null ? [] : [[row.stationId, observationData(clean, converterOf('si'))] as const];
      }),
    );
  };
}
