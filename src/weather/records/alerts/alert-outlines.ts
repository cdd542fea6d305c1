import { and, type AnyColumn, asc, between, eq, gt, type SQL, sql } from 'drizzle-orm';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { geometryCheck } from '../../database/cleaner.ts';
import type { WeatherDatabase } from '../../database/database.ts';
import { placesRequired } from '../../database/errors.ts';
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

/** The outlines of one poll's alerts. */
export interface AlertOutlines {
  /** The index, whose owners are alert identifiers. */
  index: OutlineIndex;
  /**
   * Alerts whose location is only partly known, because a zone's outline is missing or an area is unreadable.
   */
  unplaced: ReadonlySet<string>;
}

interface Run {
  runId: number;
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
 * Caches outlines by owner. An identifier's outline rarely changes, because a changed alert has a new
 * identifier and zones are revised twice a year.
 */
interface OutlineCache<T, Key extends string = string> {
  known: Map<Key, T>;
  since: number;
}
/** The location given in an alert itself. */
interface OwnPlace {
  geometry: Geometry | null;
  /**
   * True if some of the alert's areas could not be read, so that its geometry or zones cover only part of its
   * location.
   */
  isPartial: boolean;
}
/** Used for an alert that the poll names but the table lacks. */
const unknownPlace: OwnPlace = { geometry: null, isPartial: true };
const learnedForMs = 60 * 60_000;
/** How long one poll's outlines are kept. A later read may find zones that were missing. */
const keptMs = 5 * 60_000;

const kept = new WeakMap<WeatherDatabase, CachedOutline>();

/**
 * Returns a poll's outlines. An alert has either its own outline or those of its zones. They are kept in
 * memory until a different poll is requested or a few minutes have passed. For the next poll, only new alerts
 * and zones are read. Reads in pages, so that a hundred thousand outlines do not block other work for long.
 */
function outlinesOf(database: WeatherDatabase, clock: Clock, run: Run): Promise<AlertOutlines> {
  const key = `${run.runId} ${run.fetchedAt.toISOString()}`;
  const before = kept.get(database);
  const now = clock.monotonic();
  if (before?.key === key && now - before.since < keptMs) return before.outlines;
  const still = <T, Key extends string>(learned: OutlineCache<T, Key> | undefined): OutlineCache<T, Key> =>
    learned === undefined || now - learned.since > learnedForMs
      ? { known: new Map(), since: now }
      : // A copy: another poll may still be read, and forgets what is not in it.
        { known: new Map(learned.known), since: learned.since };
  const [alerts, zones] = [still(before?.alerts), still(before?.zones)];
  const outlines = load(database, run.runId, { alerts: alerts.known, zones: zones.known });
  kept.set(database, { key, since: now, outlines, alerts, zones });
  outlines.catch(() => {
    // Keeps the outlines read so far, so that the next attempt continues from there.
    const current = kept.get(database);
    if (current?.outlines === outlines) kept.set(database, { ...current, key: '' });
  });
  return outlines;
}

/**
 * Like `outlinesOf`, but rejects with `database_unavailable` at the monotonic time `until`. The work
 * continues for later requests.
 */
export function outlinesInTime(
  { database, clock, until }: { database: WeatherDatabase; clock: Clock; until: number },
  run: Run,
): Promise<AlertOutlines> {
  return new Promise((resolve, reject) => {
    const late = (): void =>
      reject(
        new WaybillError('database_unavailable', 'the outlines of the alerts are still being read', {
          hint: 'try again in a moment: reading them goes on; or ask without point and bbox',
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
  runId: number,
  known: { alerts: Map<string, OwnPlace>; zones: Map<ZoneKey, Geometry> },
): Promise<AlertOutlines> {
  const outlines: Outline[] = [];
  const byZone: string[] = [];
  const alerts = await membersOf(database, runId);
  await learnAlerts(database, alerts, known.alerts);
  for (const alert of alerts) {
    const { geometry, isPartial } = known.alerts.get(alert) ?? unknownPlace;
    if (geometry !== null) outlines.push({ owners: [alert], geometry });
    // An alert with an outline does not use its zones, unless the outline covers only part of its location.
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

/** Returns the poll's alert identifiers, sorted. */
async function membersOf(database: WeatherDatabase, runId: number): Promise<string[]> {
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

/** Adds unknown alerts, and removes those that are no longer in the poll. */
async function learnAlerts(
  database: WeatherDatabase,
  alerts: readonly string[],
  known: Map<string, OwnPlace>,
): Promise<void> {
  const wanted = alerts.filter((alert) => !known.has(alert));
  const { alertId, geometry } = alertRows;
  for (const page of pagesOf(wanted)) {
    const [first = '', last = ''] = [page[0], page.at(-1)];
    const rows = await database.one((queries) =>
      queries
        .select({ alertId, geometry, isPartlyUnreadable, isPartlyOutlined })
        .from(alertRows)
        // The index finds the range directly. Without the range, each page would be searched among all
        // alerts.
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

/** Returns each zone's alerts. */
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
  // The query runs even if nothing is needed, so that a missing table is always an error.
  for (const page of wanted.length === 0 ? [[zoneKey('', 'public')]] : pagesOf(wanted)) {
    const outlines = await readZones(database, page).catch((error: unknown) => {
      throw placesRequired(error);
    });
    for (const [key, geometry] of outlines) known.set(key, geometry);
  }
}

/**
 * Passed as one JSON value, because preparing a statement with a thousand parameters takes longer than
 * answering it.
 */
function among(column: AnyColumn, values: readonly string[]): SQL {
  return sql`${column} in (select jsonb_array_elements_text(${JSON.stringify(values)}::text::jsonb))`;
}

function pagesOf<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / pageSize) }, (_, page) =>
    items.slice(page * pageSize, (page + 1) * pageSize),
  );
}
