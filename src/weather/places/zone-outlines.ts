import { sql } from 'drizzle-orm';
import { WaybillError } from '../../core/lib/errors.ts';
import type { WeatherDatabase } from '../database/database.ts';
import type { Geometry } from '../geometry.ts';
import { geometryCheck } from '../rows/field-checks.ts';
import { fireZones, zones } from './place-tables.ts';
import { ugcOf, zoneKey, zoneKind, type ZoneKey } from './zone-key.ts';

/** The outlines of some zones and counties, by their keys; those that are not known are left out. */
export type ZoneOutlines = (keys: readonly ZoneKey[]) => Promise<ReadonlyMap<ZoneKey, Geometry>>;

/** Where there is no table of outlines, none is known. */
export function openZoneOutlines(database: WeatherDatabase): ZoneOutlines {
  return async (keys) => {
    if (keys.length === 0) return new Map();
    try {
      return await readZones(database, keys);
    } catch (error) {
      if (error instanceof WaybillError && error.code === 'schema_mismatch') return new Map();
      throw error;
    }
  };
}

/**
 * The outlines of zones by their keys. Zones of fire weather are in a table of their own, which came later:
 * without it none of them is known. Throws what the database throws.
 */
export async function readZones(
  database: WeatherDatabase,
  keys: readonly ZoneKey[],
): Promise<Map<ZoneKey, Geometry>> {
  const found = new Map<ZoneKey, Geometry>();
  const fire = keys.filter((key) => key.startsWith('fire/'));
  const others = keys.filter((key) => !key.startsWith('fire/'));
  for (const { ugc, geometry } of await rowsOf(database, zones, others))
    for (const key of others) if (ugcOf(key) === ugc) found.set(key, geometry);
  if (fire.length === 0) return found;
  const rows = await rowsOf(database, fireZones, fire).catch((error: unknown) => {
    if (error instanceof WaybillError && error.code === 'schema_mismatch') return [];
    throw error;
  });
  for (const { ugc, geometry } of rows) found.set(zoneKey(ugc, zoneKind(ugc, 'fire')), geometry);
  return found;
}

async function rowsOf(
  database: WeatherDatabase,
  table: typeof zones | typeof fireZones,
  keys: readonly ZoneKey[],
): Promise<{ ugc: string; geometry: Geometry }[]> {
  // As one value: to write a statement with a thousand takes longer than to answer it.
  const list = JSON.stringify(keys.map(ugcOf));
  const rows = await database.one((queries) =>
    queries
      .select({ ugc: table.ugc, geometry: table.geometry })
      .from(table)
      .where(sql`${table.ugc} in (select jsonb_array_elements_text(${list}::text::jsonb))`),
  );
  return rows.filter(({ geometry }) => geometryCheck(geometry) === null && geometry['type'] !== 'Point');
}
