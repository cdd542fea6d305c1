import { inArray } from 'drizzle-orm';
import { WaybillError } from '../../errors.ts';
import type { WeatherDatabase } from '../database/database.ts';
import type { Geometry } from '../geometry.ts';
import { geometryCheck } from '../rows/field-checks.ts';
import { zones } from './place-tables.ts';

/** The outlines of some zones and counties, by their UGC codes; those that are not known are left out. */
export type ZoneOutlines = (ugcs: readonly string[]) => Promise<ReadonlyMap<string, Geometry>>;

/** Where there is no table of outlines, none is known. */
export function openZoneOutlines(database: WeatherDatabase): ZoneOutlines {
  return async (ugcs) => {
    if (ugcs.length === 0) return new Map();
    try {
      const rows = await database.one((queries) =>
        queries
          .select({ ugc: zones.ugc, geometry: zones.geometry })
          .from(zones)
          .where(inArray(zones.ugc, [...ugcs])),
      );
      return new Map(
        rows.flatMap(({ ugc, geometry }) => (geometryCheck(geometry) === null ? [[ugc, geometry]] : [])),
      );
    } catch (error) {
      if (error instanceof WaybillError && error.code === 'schema_mismatch') return new Map();
      throw error;
    }
  };
}
