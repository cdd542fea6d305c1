import { and, asc, eq, gt, inArray } from 'drizzle-orm';
import type { Clock } from '../../../clock.ts';
import type { WeatherDatabase } from '../../database/database.ts';
import { placesRequired } from '../../database/errors.ts';
import type { Geometry } from '../../geometry.ts';
import type { Outline, OutlineIndex } from '../../places/outlines.ts';
import { zones } from '../../places/place-tables.ts';
import { geometryCheck } from '../../rows/field-checks.ts';
import { alertAreas, alertRows, alertRunMembers } from './alert-tables.ts';

/** Where the alerts of one poll are. */
export interface AlertOutlines {
  /** Owned by the identifiers of alerts. */
  index: OutlineIndex;
  /** Alerts without a geometry of whose zones not every one has an outline here. */
  unplaced: ReadonlySet<string>;
}

interface Run {
  runId: number;
  fetchedAt: Date;
}

interface Kept {
  key: string;
  since: number;
  outlines: Promise<AlertOutlines>;
  zones: ZoneOutlines;
}

/** Outlines of zones are revised twice a year. */
interface ZoneOutlines {
  known: Map<string, Geometry>;
  since: number;
}
const zonesKeptMs = 60 * 60_000;
/** Then those of the same poll are read again, for zones may have come. */
const keptMs = 5 * 60_000;

const kept = new WeakMap<WeatherDatabase, Kept>();

/**
 * The outlines of a poll, in memory until another poll is asked for or some minutes have passed: an alert has
 * its own, or those of its zones. Reads in pages, so that a hundred thousand outlines stop nothing else for
 * long.
 */
export function outlinesOf(database: WeatherDatabase, clock: Clock, run: Run): Promise<AlertOutlines> {
  const key = `${run.runId} ${run.fetchedAt.toISOString()}`;
  const before = kept.get(database);
  const now = clock.monotonic();
  if (before?.key === key && now - before.since < keptMs) return before.outlines;
  const isOld = before === undefined || now - before.zones.since > zonesKeptMs;
  const zoneOutlines = isOld ? { known: new Map<string, Geometry>(), since: now } : before.zones;
  const outlines = load(database, run.runId, zoneOutlines.known);
  kept.set(database, { key, since: now, outlines, zones: zoneOutlines });
  outlines.catch(() => {
    if (kept.get(database)?.outlines === outlines) kept.delete(database);
  });
  return outlines;
}

async function load(
  database: WeatherDatabase,
  runId: number,
  known: Map<string, Geometry>,
): Promise<AlertOutlines> {
  const outlines: Outline[] = [];
  const byZone: string[] = [];
  for await (const { alertId, geometry } of members(database, runId))
    if (isOutline(geometry)) outlines.push({ owners: [alertId], geometry });
    else byZone.push(alertId);
  const areas = await areasOf(database, byZone);
  await learnZones(database, [...areas.keys()], known);
  const everyZone = new Set([...areas.values()].flat());
  const unplaced = new Set(byZone.filter((alert) => !everyZone.has(alert)));
  for (const [ugc, alerts] of areas) {
    const geometry = known.get(ugc);
    if (geometry !== undefined) outlines.push({ owners: alerts, geometry });
    else for (const alert of alerts) unplaced.add(alert);
  }
  const { outlineIndex } = await import('../../places/outlines.ts');
  return { index: outlineIndex(outlines), unplaced };
}

function isOutline(geometry: Geometry | null): geometry is Geometry {
  return geometry !== null && geometryCheck(geometry) === null && geometry['type'] !== 'Point';
}

const pageSize = 1000;

async function* members(
  database: WeatherDatabase,
  runId: number,
): AsyncGenerator<{ alertId: string; geometry: Geometry | null }> {
  for (let after = '', isMore = true; isMore;) {
    const page = await database.one((queries) =>
      queries
        .select({ alertId: alertRows.alertId, geometry: alertRows.geometry })
        .from(alertRunMembers)
        .innerJoin(alertRows, eq(alertRows.alertId, alertRunMembers.alertId))
        .where(and(eq(alertRunMembers.runId, runId), gt(alertRunMembers.alertId, after)))
        .orderBy(asc(alertRunMembers.alertId))
        .limit(pageSize),
    );
    yield* page;
    isMore = page.length === pageSize;
    after = page.at(-1)?.alertId ?? after;
  }
}

/** The alerts of each zone. */
async function areasOf(database: WeatherDatabase, alerts: readonly string[]): Promise<Map<string, string[]>> {
  const owners = new Map<string, string[]>();
  for (const page of pagesOf(alerts)) {
    const rows = await database.one((queries) =>
      queries
        .select({ ugc: alertAreas.ugc, alertId: alertAreas.alertId })
        .from(alertAreas)
        .where(inArray(alertAreas.alertId, page)),
    );
    for (const { ugc, alertId } of rows) {
      const alerts = owners.get(ugc);
      if (alerts === undefined) owners.set(ugc, [alertId]);
      else alerts.push(alertId);
    }
  }
  return owners;
}

async function learnZones(
  database: WeatherDatabase,
  ugcs: readonly string[],
  known: Map<string, Geometry>,
): Promise<void> {
  const wanted = ugcs.filter((ugc) => !known.has(ugc));
  // Even if none is wanted: without the table there is an error, always the same.
  for (const page of wanted.length === 0 ? [['']] : pagesOf(wanted)) {
    const rows = await database
      .one((queries) =>
        queries
          .select({ ugc: zones.ugc, geometry: zones.geometry })
          .from(zones)
          .where(inArray(zones.ugc, page)),
      )
      .catch((error: unknown) => {
        throw placesRequired(error);
      });
    for (const { ugc, geometry } of rows) if (isOutline(geometry)) known.set(ugc, geometry);
  }
}

function pagesOf<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / pageSize) }, (_, page) =>
    items.slice(page * pageSize, (page + 1) * pageSize),
  );
}
