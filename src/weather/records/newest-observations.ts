import { sql } from 'drizzle-orm';
import type { Clock } from '../../core/lib/clock.ts';
import type { WeatherDatabase } from '../database/database.ts';
import { observationData, type ObservationData } from '../observation-record.ts';
import { presentUntil } from '../rows/first-clean.ts';
import { converterOf } from '../units.ts';
import { cleanedObservation, observationRows, selectObservations } from './observation-tables.ts';

/**
 * The newest observation since a moment of each of some stations, in stored units, by their identifiers: in
 * one statement, for many of them. One that cannot be is left out, as if it were not there.
 */
export type NewestObservations = (
  stations: readonly string[],
  since: Date,
) => Promise<ReadonlyMap<string, ObservationData>>;

export function openNewestObservations(database: WeatherDatabase, clock: Clock): NewestObservations {
  return async (stations, since) => {
    const now = clock.now();
    // A search backwards in the primary key for each, and then the rows by it.
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
