import { and, type AnyColumn, asc, between, eq, gt, type SQL, sql } from 'drizzle-orm';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { geometryCheck } from '../../database/cleaner.ts';
import type { WeatherDatabase } from '../../database/database.ts';
import { placesRequired } from '../../database/database-errors.ts';
import { type Outline, type OutlineIndex, readZones } from '../../places/outlines.ts';
import { type ZoneKey, zoneKey, zoneKind } from '../../places/position.ts';
import type { Geometry } from '../../values.ts';
import {
  alertAreas,
  alertRows,
  alertRunMembers,
  isPartlyOutlined,
  isPartlyUnreadable,
  kindOfArea,
} from './alert-tables.ts';

/** The outlines of all alerts in a run, which is a list of alerts fetched at some point. */
export interface AlertOutlines {
  /** The outlines. Their owners are the ids of alerts. */
  index: OutlineIndex;
  /**
   * Alerts that might apply to more places than we know, because the outline of a zone is missing or an area
   * could not be read.
   */
  unplaced: ReadonlySet<string>;
}

interface OutlinedRun {
  runId: bigint;
  fetchedAt: Date;
}

interface CachedOutline {
  key: string;
  since: number;
  outlines: Promise<AlertOutlines>;
  alerts: OutlineCache<OwnPlace>;
  zones: OutlineCache<Geometry, ZoneKey>;
}

/**
 * A cache of outlines. They rarely change: when an alert changes, it gets a new id, and the NWS updates zones
 * only twice a year.
 */
interface OutlineCache<T, Key extends string = string> {
  known: Map<Key, T>;
  since: number;
}
/** The location in the alert itself. */
interface OwnPlace {
  geometry: Geometry | null;
  /** True if part of the location could not be read, which leaves the geometry or the zones incomplete. */
  isPartial: boolean;
}
/** For an alert that is in the list but not in the table. */
const unknownPlace: OwnPlace = { geometry: null, isPartial: true };
const learnedForMs = 60 * 60_000;
/** The time for which a run's outlines are cached. A later read may find zones that were missing. */
const keptMs = 5 * 60_000;

const kept = new WeakMap<WeatherDatabase, CachedOutline>();

/**
 * Returns the outlines of a run. For each alert, this is its own outline or, if it has none, the outlines of
 * its zones. Outlines are kept for a few minutes, or until another run is requested, which only has to read
 * new alerts and zones. Outlines are read in pages, so that even a hundred thousand of them do not block
 * other work for long.
 */
function outlinesOf(database: WeatherDatabase, clock: Clock, run: OutlinedRun): Promise<AlertOutlines> {
  const key = `${run.runId} ${run.fetchedAt.toISOString()}`;
  const before = kept.get(database);
  const now = clock.monotonic();
  if (before?.key === key && now - before.since < keptMs) return before.outlines;
  const still = <T, Key extends string>(learned: OutlineCache<T, Key> | undefined): OutlineCache<T, Key> =>
    learned === undefined || now - learned.since > learnedForMs
      ? { known: new Map(), since: now }
      : // Copy it. Loading another run may still be using the original and removing entries.
        { known: new Map(learned.known), since: learned.since };
  const alerts = still(before?.alerts);
  const zones = still(before?.zones);
  const outlines = load(database, run.runId, { alerts: alerts.known, zones: zones.known });
  kept.set(database, { key, since: now, outlines, alerts, zones });
  outlines.catch(() => {
    // Keep what has been read so far. The next attempt then does not start from scratch.
    const current = kept.get(database);
    if (current?.outlines === outlines) kept.set(database, { ...current, key: '' });
  });
  return outlines;
}

/**
 * Like `outlinesOf`, but rejects with `database_unavailable` if it is not done by `until`, in monotonic
 * milliseconds. Loading continues in the background, for later requests.
 */
export function outlinesInTime(
  { database, clock, until }: { database: WeatherDatabase; clock: Clock; until: number },
  run: OutlinedRun,
): Promise<AlertOutlines> {
  return new Promise((resolve, reject) => {
    const late = (): void =>
      reject(
        new WaybillError('database_unavailable', 'the outlines of the alerts are still being read', {
          hint: 'try again in a moment, or omit point and bbox',
        }),
      );
    const timer = clock.timeout(Math.max(0, Math.ceil(until - clock.monotonic())), late, { unref: true });
    outlinesOf(database, clock, run)
      .then(resolve, reject)
      .finally(() => timer.cancel());
  });
}

async function load(
  database: WeatherDatabase,
  runId: bigint,
  known: { alerts: Map<string, OwnPlace>; zones: Map<ZoneKey, Geometry> },
): Promise<AlertOutlines> {
  const outlines: Outline[] = [];
  const byZone: string[] = [];
  const alerts = await membersOf(database, runId);
  await learnAlerts(database, alerts, known.alerts);
  for (const alert of alerts) {
    const { geometry, isPartial } = known.alerts.get(alert) ?? unknownPlace;
    if (geometry !== null) outlines.push({ owners: [alert], geometry });
    // Zones are only needed if the alert has no outline, or if its outline is incomplete.
    if (geometry === null || isPartial) byZone.push(alert);
  }
  const areas = await areasOf(database, byZone);
  await learnZones(database, [...areas.keys()], known.zones);
  const everyZone = new Set([...areas.values()].flat());
  const isPartial = (alert: string): boolean => (known.alerts.get(alert) ?? unknownPlace).isPartial;
  const unplaced = new Set(byZone.filter((alert) => !everyZone.has(alert) || isPartial(alert)));
  for (const [key, alerts] of areas) {
    const geometry = known.zones.get(key);
    if (geometry !== undefined) outlines.push({ owners: alerts, geometry });
    else for (const alert of alerts) unplaced.add(alert);
  }
  const { outlineIndex } = await import('../../places/outlines.ts');
  return { index: await outlineIndex(outlines), unplaced };
}

function isOutline(geometry: Geometry | null): geometry is Geometry {
  return geometry !== null && geometryCheck(geometry) === null && geometry['type'] !== 'Point';
}

const pageSize = 1000;

/** Returns the ids of all alerts in a run, sorted. */
async function membersOf(database: WeatherDatabase, runId: bigint): Promise<string[]> {
  const found: string[] = [];
  const { runId: run, alertId } = alertRunMembers;
  for (let after = '', isMore = true; isMore;) {
    const page = await database.one((queries) =>
      queries
        .select({ alertId })
        .from(alertRunMembers)
        .where(and(eq(run, runId), gt(alertId, after)))
        .orderBy(asc(alertId))
        .limit(pageSize),
    );
    found.push(...page.map((row) => row.alertId));
    isMore = page.length === pageSize;
    after = found.at(-1) ?? after;
  }
  return found;
}

/** Reads the alerts that are not in the cache yet, and removes those that are not in the run. */
async function learnAlerts(
  database: WeatherDatabase,
  alerts: readonly string[],
  known: Map<string, OwnPlace>,
): Promise<void> {
  const wanted = alerts.filter((alert) => !known.has(alert));
  const { alertId, geometry } = alertRows;
  for (const page of pagesOf(wanted)) {
    const first = page[0] ?? '';
    const last = page.at(-1) ?? '';
    const rows = await database.one((queries) =>
      queries
        .select({ alertId, geometry, isPartlyUnreadable, isPartlyOutlined })
        .from(alertRows)
        // The range makes this fast, because it can be found in the index. Without it, each page would be
        // compared with all alerts.
        .where(and(between(alertId, first, last), among(alertId, page))),
    );
    for (const { alertId: id, geometry: own, ...marks } of rows)
      known.set(
        id,
        isOutline(own)
          ? { geometry: own, isPartial: marks.isPartlyOutlined }
          : { geometry: null, isPartial: marks.isPartlyUnreadable || marks.isPartlyOutlined },
      );
  }
  const current = new Set(alerts);
  for (const alert of known.keys()) if (!current.has(alert)) known.delete(alert);
}

async function areasOf(
  database: WeatherDatabase,
  alerts: readonly string[],
): Promise<Map<ZoneKey, string[]>> {
  const owners = new Map<ZoneKey, string[]>();
  for (const page of pagesOf(alerts)) {
    const rows = await database.one((queries) =>
      queries
        .select({ ugc: alertAreas.ugc, alertId: alertAreas.alertId, kind: kindOfArea })
        .from(alertAreas)
        .innerJoin(alertRows, eq(alertRows.alertId, alertAreas.alertId))
        .where(among(alertAreas.alertId, page)),
    );
    for (const { ugc, alertId, kind } of rows) {
      const key = zoneKey(ugc, zoneKind(ugc, kind ?? ''));
      const alerts = owners.get(key);
      if (alerts === undefined) owners.set(key, [alertId]);
      else alerts.push(alertId);
    }
  }
  return owners;
}

async function learnZones(
  database: WeatherDatabase,
  keys: readonly ZoneKey[],
  known: Map<ZoneKey, Geometry>,
): Promise<void> {
  const wanted = keys.filter((key) => !known.has(key));
  // Query even if nothing is needed, so that a missing table is reported in any case.
  for (const page of wanted.length === 0 ? [[zoneKey('', 'public')]] : pagesOf(wanted)) {
    const outlines = await readZones(database, page).catch((error: unknown) => {
      throw placesRequired(error);
    });
    for (const [key, geometry] of outlines) known.set(key, geometry);
  }
}

/**
 * The values are passed as a single JSON value. Preparing a statement with a thousand parameters would take
 * longer than running it.
 */
function among(column: AnyColumn, values: readonly string[]): SQL {
  return sql`${column} in (select jsonb_array_elements_text(${JSON.stringify(values)}::text::jsonb))`;
}

function pagesOf<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / pageSize) }, (_, page) =>
    items.slice(page * pageSize, (page + 1) * pageSize),
  );
}
