import { and, desc, gt, inArray, lte } from 'drizzle-orm';
import type { Clock } from '../../clock.ts';
import { currentConditions, windowOf, type CurrentConditions } from '../current-conditions.ts';
import type { WeatherDatabase } from '../database.ts';
import { instant } from '../instant.ts';
import type { ObservationRow } from '../observation-row.ts';
import type { CurrentConditionsQuery } from '../queries.ts';
import type { WeatherReader } from '../reader.ts';
import type { CurrentConditionsData, FieldSource } from '../records.ts';
import { observations } from '../tables.ts';
import { converterOf, observationUnits, type Converter } from '../units.ts';
import { cloudData, measuredData, selectObservations, stationData } from './observations.ts';

/** The present at the stations that were asked for, or at that of the newest observation. */
export function currentConditionsReader(
  database: WeatherDatabase,
  clock: Clock,
): WeatherReader['currentConditions'] {
  return async (query: CurrentConditionsQuery) => {
    const window = { now: clock.now(), maxAgeMinutes: query.maxAgeMinutes };
    const { after, until } = windowOf(window);
    const inWindow = and(gt(observations.observedAt, after), lte(observations.observedAt, until));
    const { stations, rows } = await database.snapshot(async (queries) => {
      const stations = [...query.stations];
      if (stations.length === 0) {
        const [newest] = await queries
          .select({ stationId: observations.stationId })
          .from(observations)
          .where(inWindow)
          .orderBy(desc(observations.observedAt), observations.stationId)
          .limit(1);
        if (newest === undefined) return { stations, rows: [] };
        stations.push(newest.stationId);
      }
      const rows = await selectObservations(
        queries,
        and(inArray(observations.stationId, stations), inWindow),
      );
      return { stations, rows };
    });
    const conditions = currentConditions(rows, stations, window);
    if (conditions === null) return { data: null, lastModified: null };
    return { data: conditionsData(conditions, converterOf(query.units)), lastModified: newestOf(conditions) };
  };
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
    source: {
      temperature: sourceOf(sources.temperature),
      dewpoint: sourceOf(sources.dewpoint),
      relativeHumidity: sourceOf(sources.relativeHumidity),
      wind: sourceOf(sources.wind),
      altimeter: sourceOf(sources.altimeter),
      seaLevelPressure: sourceOf(sources.seaLevelPressure),
      visibility: sourceOf(sources.visibility),
      sky: sourceOf(sources.sky),
      temperatureMax24h: sourceOf(sources.temperatureMax24h),
      temperatureMin24h: sourceOf(sources.temperatureMin24h),
      precipitation1h: sourceOf(sources.precipitation1h),
      precipitation3h: sourceOf(sources.precipitation3h),
      precipitation6h: sourceOf(sources.precipitation6h),
    },
    units: observationUnits(convert),
  };
}

function sourceOf(row: ObservationRow | null): FieldSource | null {
  return row === null ? null : { station: row.station.stationId, observedAt: instant(row.observedAt) };
}

function newestOf({ sources }: CurrentConditions): Date | null {
  const times = Object.values(sources).flatMap((row) => (row === null ? [] : [row.receivedAt.getTime()]));
  return times.length === 0 ? null : new Date(Math.max(...times));
}
