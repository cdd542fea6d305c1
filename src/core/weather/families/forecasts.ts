import { and, asc, desc, eq, lte } from 'drizzle-orm';
import type { Reading } from '../reader.ts';
import type { WeatherDatabase } from '../database.ts';
import { instant } from '../instant.ts';
import type { ForecastRunData, HourlyPeriodData } from '../records.ts';
import { forecastPeriods, forecastRuns } from '../tables.ts';
import { forecastUnits, type Converter } from '../units.ts';

export type ForecastRunRow = typeof forecastRuns.$inferSelect;
export type ForecastPeriodRow = typeof forecastPeriods.$inferSelect;

/** The newest run of a kind for a place, or for any, with its first periods. */
export function readForecast<T>(
  database: WeatherDatabase,
  { kind, location, count }: { kind: ForecastRunRow['kind']; location: string | null; count: number },
  dataOf: (run: ForecastRunRow, periods: ForecastPeriodRow[]) => T,
): Promise<Reading<T>> {
  return database.snapshot(async (queries) => {
    const runs = queries.select().from(forecastRuns).$dynamic();
    const [run] = await (location === null
      ? runs
          .where(eq(forecastRuns.kind, kind))
          .orderBy(desc(forecastRuns.generatedAt), desc(forecastRuns.runId))
          .limit(1)
      : runs
          .where(and(eq(forecastRuns.kind, kind), eq(forecastRuns.locationId, location)))
          .orderBy(desc(forecastRuns.generatedAt))
          .limit(1));
    if (run === undefined) return { data: null, lastModified: null };
    const periods = await queries
      .select()
      .from(forecastPeriods)
      .where(and(eq(forecastPeriods.runId, run.runId), lte(forecastPeriods.number, count)))
      .orderBy(asc(forecastPeriods.number));
    return { data: dataOf(run, periods), lastModified: run.receivedAt };
  });
}

export function forecastRunData(run: ForecastRunRow, convert: Converter): ForecastRunData {
  return {
    location: run.locationId,
    office: run.office,
    gridX: run.gridX,
    gridY: run.gridY,
    timeZone: run.timeZone,
    generatedAt: instant(run.generatedAt),
    updatedAt: instant(run.updatedAt),
    validFrom: instant(run.validFrom),
    validUntil: instant(run.validUntil),
    elevation: convert.elevation(run.elevationM),
    units: forecastUnits(convert),
  };
}

export function periodData(period: ForecastPeriodRow, convert: Converter): HourlyPeriodData {
  return {
    number: period.number,
    startsAt: instant(period.startsAt),
    endsAt: instant(period.endsAt),
    isDaytime: period.isDaytime,
    temperature: convert.temperature(period.temperatureC),
    dewpoint: convert.temperature(period.dewpointC),
    relativeHumidity: convert.percentage(period.relativeHumidityPct),
    precipitationProbability: convert.percentage(period.precipitationProbabilityPct),
    windSpeedMin: convert.windSpeed(period.windSpeedMinKmh),
    windSpeedMax: convert.windSpeed(period.windSpeedMaxKmh),
    windGust: convert.windSpeed(period.windGustKmh),
    windDirection: period.windDirection,
    shortForecast: period.shortForecast,
    iconUrl: period.iconUrl,
  };
}
