import { and, asc, eq, gte, lt } from 'drizzle-orm';
import { moment, type Parameter, type ValuesOf, wholeNumber } from '../../core/lib/parameters.ts';
import {
  type Features,
  newNotes,
  noReading,
  type Reading,
  weatherFamily,
  type WeatherSource,
} from '../family.ts';
import { rangeRule, stationPattern, unitsParameter } from '../places/place-parameters.ts';
import { converterOf, observationUnits } from '../units.ts';
import { instant, pointGeometry } from '../values.ts';
import { type ObservationHistoryData, observationHistoryRecord } from './observation-fields.ts';
import { pastObservationData, stationData } from './observation-record.ts';
import {
  cleanedObservation,
  observationRows,
  observationTable,
  requireStations,
  selectObservations,
  stationOf,
} from './observation-tables.ts';
import { observations } from './observations.ts';

const dayMs = 24 * 60 * 60_000;
const maxRangeMs = 366 * dayMs;

const station: Parameter<string> = {
  description: 'The station.',
  example: 'KNYC',
  schema: {
    description: '3 to 8 letters and digits.',
    type: 'string',
    pattern: stationPattern.source.replaceAll(/A-Z/g, 'A-Za-z'),
  },
  absent: '',
  expected: 'a station, such as KNYC',
  isRequired: true,
  parse: (text) => (stationPattern.test(text.toUpperCase()) ? text.toUpperCase() : undefined),
};

const parameters = {
  station,
  start: moment({
    description: 'Start of the range, inclusive. Default: one day before `end`.',
    example: '2026-01-20T00:00:00Z',
  }),
  end: moment({
    description: 'End of the range, exclusive, at most 366 days after `start`. Default: now.',
    example: '2026-01-21T00:00:00Z',
  }),
  limit: wholeNumber(1, 10_000, 1000, {
    description: 'Maximum number of observations. `Link` has the next page.',
  }),
  units: unitsParameter,
};

export const observationHistory = weatherFamily({
  tables: observations.tables,
  endpoint: {
    path: '/observations/history',
    operationId: 'listObservations',
    summary: 'List observations of a station',
    description: 'Lists the observations in a time range.',
    parameters,
    rules: [rangeRule(maxRangeMs)],
    maxAgeSeconds: 60,
  },
  record: observationHistoryRecord,
  template: 'observation_history',
  itemNames: { observations: 'observation', presentWeather: 'weather', clouds: 'cloud' },
  features: historyFeatures,
  table: observationTable,
  read: readHistory,
});

async function readHistory(
  { database, clock }: WeatherSource,
  query: ValuesOf<typeof parameters>,
): Promise<Reading<ObservationHistoryData>> {
  const now = clock.now();
  const { start, end } = rangeOf(query, now);
  const notes = newNotes();
  return database.snapshot(async (queries) => {
    await requireStations(queries, [query.station], { isNeeded: true });
    const rows = await selectObservations(
      queries,
      and(
        eq(observationRows.stationId, query.station),
        gte(observationRows.observedAt, start),
        lt(observationRows.observedAt, end),
      ),
    )
      .orderBy(asc(observationRows.observedAt))
      .limit(query.limit + 1);
    const convert = converterOf(query.units);
    const page = rows.slice(0, query.limit);
    const clean = page.flatMap((row) => cleanedObservation(row, notes.note, now) ?? []);
    const place = await stationOf(queries, query.station, notes.note);
    const data = {
      station: stationData(place, convert),
      timeZone: place.timeZone,
      start: instant(start),
      end: instant(end),
      observations: clean.map((row) => pastObservationData(row, convert)),
      units: observationUnits(convert),
    };
    const found = { ...noReading(notes), data };
    const after = rows[query.limit];
    return after === undefined
      ? found
      : { ...found, next: { start: nextStart(after.observedAt, start), end } };
  });
}

function rangeOf(
  { start, end }: { start: Date | null; end: Date | null },
  now: Date,
): { start: Date; end: Date } {
  if (start === null) return { start: new Date((end ?? now).getTime() - dayMs), end: end ?? now };
  return { start, end: end ?? new Date(Math.min(now.getTime(), start.getTime() + maxRangeMs)) };
}

/**
 * Always advances by at least 1 ms. Otherwise, if several observations have the same time, the next page
 * could be the same page again.
 */
function nextStart(next: Date, start: Date): Date {
  return next > start ? next : new Date(start.getTime() + 1);
}

/** Returns an item for each observation. All of them are at the position of the station. */
function historyFeatures({ observations, ...about }: ObservationHistoryData): Features {
  const { latitude, longitude } = about.station;
  const geometry = pointGeometry(latitude, longitude);
  return {
    about,
    places: observations.map((properties) => ({
      id: `${about.station.id} ${properties.observedAt}`,
      geometry,
      properties,
    })),
  };
}
