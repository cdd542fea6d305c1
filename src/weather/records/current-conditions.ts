import { and, desc, gt, inArray, lte } from 'drizzle-orm';
import { atMostOneOf, identifiers, type ValuesOf, wholeNumber } from '../../core/lib/parameters.ts';
import {
  newNotes,
  noReading,
  type Reading,
  reading,
  resolvedPlace,
  weatherFamily,
  type WeatherSource,
} from '../family.ts';
import { type Nearby, nearestHaving } from '../places/place-index.ts';
import {
  pointParameter,
  radiusParameter,
  radiusRule,
  stationPattern,
  unitsParameter,
} from '../places/place-parameters.ts';
import { type Converter, converterOf, observationUnits } from '../units.ts';
import { instant } from '../values.ts';
import { type CurrentConditions, currentConditions as aggregate, windowOf } from './combined-conditions.ts';
import { type CurrentConditionsData, currentConditionsRecord } from './observation-fields.ts';
import {
  cloudData,
  measuredData,
  type ObservationRow,
  stationData,
  stationFeatures,
} from './observation-record.ts';
import {
  cleanedObservation,
  observationRows,
  requireStations,
  selectObservations,
  stationsHaving,
} from './observation-tables.ts';
import { observations } from './observations.ts';

const parameters = {
  station: identifiers(stationPattern, 5, 'a station, such as KNYC', {
    description: 'Up to five stations, comma-separated, highest priority first.',
    example: 'KNYC,KLGA',
  }),
  point: pointParameter(
    'Latitude and longitude. Uses up to five stations with data within `radius`, nearest first.',
  ),
  radius: radiusParameter,
  maxAge: wholeNumber(10, 360, 90, { description: 'Maximum age of an observation, in minutes.' }),
  units: unitsParameter,
};

/**
 * Current conditions at the requested stations. By default, these are the conditions at the station with the
 * latest observation.
 */
export const currentConditions = weatherFamily({
  tables: observations.tables,
  endpoint: {
    path: '/current-conditions',
    operationId: 'getCurrentConditions',
    summary: 'Get current conditions',
    description: 'Each field comes from the newest good observation.',
    parameters,
    rules: [atMostOneOf('station', 'point'), radiusRule],
    maxAgeSeconds: 60,
  },
  record: currentConditionsRecord,
  template: 'current_conditions',
  itemNames: { presentWeather: 'weather', clouds: 'cloud' },
  features: (data: CurrentConditionsData) => stationFeatures(data),
  read: readConditions,
});

async function readConditions(
  { database, clock, places }: WeatherSource,
  query: ValuesOf<typeof parameters>,
): Promise<Reading<CurrentConditionsData>> {
  const window = { now: clock.now(), maxAgeMinutes: query.maxAge };
  const { after, until } = windowOf(window);
  const inWindow = and(gt(observationRows.observedAt, after), lte(observationRows.observedAt, until));
  const { point, radius: radiusKm } = query;
  const index = point === null ? null : (await places.stations()).index;
  const { near, stations, rows } = await database.snapshot(async (queries) => {
    const having = (ids: readonly string[]): Promise<ReadonlySet<string>> =>
      stationsHaving(queries, ids, { after, until }, { isMeasured: true });
    const near: readonly Nearby[] =
      point === null || index === null
        ? []
        : await nearestHaving(index, { point, radiusKm }, { limit: 5, having });
    const stations = point === null ? [...query.station] : near.map(({ place }) => place.id);
    if (point !== null && stations.length === 0) return { near, stations, rows: [] };
    if (stations.length === 0) {
      const [newest] = await queries
        .select({ stationId: observationRows.stationId })
        .from(observationRows)
        .where(inWindow)
        .orderBy(desc(observationRows.observedAt), observationRows.stationId)
        .limit(1);
      if (newest === undefined) return { near, stations, rows: [] };
      stations.push(newest.stationId);
    }
    const [rows] = await Promise.all([
      selectObservations(queries, and(inArray(observationRows.stationId, stations), inWindow)),
      requireStations(queries, query.station),
    ]);
    return { near, stations, rows };
  });
  const notes = newNotes();
  const clean = rows.flatMap((row) => cleanedObservation(row, notes.note, window.now) ?? []);
  const conditions = aggregate(clean, stations, window);
  if (conditions === null) return noReading(notes);
  // There is no modification date, because old observations stop counting as time passes.
  const data = conditionsData(conditions, converterOf(query.units));
  const found = reading({ data, lastModified: null, asOf: conditions.observedAt }, notes);
  const resolved = near.find(({ place }) => place.id === conditions.station.stationId);
  return resolved === undefined ? found : { ...found, resolved: resolvedPlace('station', resolved) };
}

function conditionsData(conditions: CurrentConditions, convert: Converter): CurrentConditionsData {
  const { station, sky, feelsLike, sources } = conditions;
  return {
    station: stationData(station, convert),
    observedAt: instant(conditions.observedAt),
    timeZone: station.timeZone,
    textDescription: sky?.textDescription ?? null,
    ...measuredData(conditions.values, convert),
    presentWeather: sky?.presentWeather ?? [],
    clouds: cloudData(sky?.clouds ?? [], convert),
    feelsLike: convert.temperature(feelsLike?.value ?? null),
    feelsLikeMethod: feelsLike?.method ?? null,
    source: Object.fromEntries(
      Object.entries(sources).map(([field, row]) => [field, sourceOf(row)]),
    ) as CurrentConditionsData['source'],
    units: observationUnits(convert),
  };
}

function sourceOf(row: ObservationRow | null): CurrentConditionsData['source']['wind'] {
  return row === null ? null : { station: row.station.stationId, observedAt: instant(row.observedAt) };
}
