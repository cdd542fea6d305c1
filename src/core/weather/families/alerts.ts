import {
  and,
  asc,
  desc,
  eq,
  exists,
  getTableColumns,
  gt,
  inArray,
  notInArray,
  sql,
  type SQL,
} from 'drizzle-orm';
import type { Clock } from '../../clock.ts';
import type { Queries, WeatherDatabase } from '../database.ts';
import { instant, instantOrNull } from '../instant.ts';
import type { AlertsQuery } from '../queries.ts';
import type { WeatherReader } from '../reader.ts';
import type { AlertData } from '../records.ts';
import { alertAreas, alertReferences, alertRunMembers, alertRuns, alerts } from '../tables.ts';

/**
 * The alerts in force: those of the newest poll whose event has not ended. What a Cancel refers to is not
 * dropped for that, since it may cancel a part; the poll itself says what is active.
 */
export function alertsReader(database: WeatherDatabase, clock: Clock): WeatherReader['alerts'] {
  return (query: AlertsQuery) =>
    database.snapshot(async (queries) => {
      const [run] = await queries
        .select()
        .from(alertRuns)
        .orderBy(desc(alertRuns.fetchedAt), desc(alertRuns.runId))
        .limit(1);
      if (run === undefined) return { data: null, lastModified: null };
      const rows = await selectAlerts(queries, run.runId, query, clock.now());
      const data = {
        fetchedAt: instant(run.fetchedAt),
        sourceUpdatedAt: instantOrNull(run.sourceUpdatedAt),
        timeZone: 'UTC',
        total: rows[0]?.total ?? 0,
        alerts: rows.map(alertData),
      };
      return { data, lastModified: null };
    });
}

const columns = getTableColumns(alerts);
const severityRank = sql`array_position(array['Extreme','Severe','Moderate','Minor','Unknown'], ${alerts.severity})`;
const zones = sql<string[]>`(select coalesce(json_agg(${alertAreas.ugc} order by ${alertAreas.ugc}), '[]')
  from ${alertAreas} where ${eq(alertAreas.alertId, alerts.alertId)})`;
const references = sql<
  string[]
>`(select coalesce(json_agg(${alertReferences.refId} order by ${alertReferences.refId}), '[]')
  from ${alertReferences} where ${eq(alertReferences.alertId, alerts.alertId)})`;

function selectAlerts(queries: Queries, runId: number, query: AlertsQuery, now: Date) {
  return queries
    .select({ ...columns, zones, references, total: sql<number>`(count(*) over ())::int` })
    .from(alertRunMembers)
    .innerJoin(alerts, eq(alerts.alertId, alertRunMembers.alertId))
    .where(
      and(
        eq(alertRunMembers.runId, runId),
        eq(alerts.status, 'Actual'),
        notInArray(alerts.messageType, ['Cancel', 'Ack', 'Error']),
        gt(sql`coalesce(${alerts.endsAt}, ${alerts.expiresAt})`, sql`${now.toISOString()}::timestamptz`),
        within(queries, query.area),
        query.severities.length === 0 ? undefined : inArray(alerts.severity, [...query.severities]),
        query.events.length === 0
          ? undefined
          : inArray(
              sql`lower(${alerts.event})`,
              query.events.map((event) => event.toLowerCase()),
            ),
      ),
    )
    .orderBy(severityRank, desc(alerts.sentAt), asc(alerts.alertId))
    .limit(query.limit);
}

function within(queries: Queries, area: AlertsQuery['area']): SQL | undefined {
  const covers = (condition: SQL): SQL =>
    exists(
      queries
        .select({ one: sql`1` })
        .from(alertAreas)
        .where(and(eq(alertAreas.alertId, alerts.alertId), condition)),
    );
  switch (area.kind) {
    case 'anywhere':
      return undefined;
    case 'zones':
      return covers(inArray(alertAreas.ugc, [...area.zones]));
    case 'area':
      return covers(sql`left(${alertAreas.ugc}, 2) = ${area.area}`);
    case 'office':
      return eq(alerts.office, area.office);
  }
}

type AlertRow = Awaited<ReturnType<typeof selectAlerts>>[number];

function alertData(row: AlertRow): AlertData {
  return {
    id: row.alertId,
    event: row.event,
    eventCode: row.eventCode,
    headline: row.headline,
    severity: row.severity,
    certainty: row.certainty,
    urgency: row.urgency,
    status: row.status,
    messageType: row.messageType,
    category: row.category,
    sentAt: instant(row.sentAt),
    effectiveAt: instant(row.effectiveAt),
    onsetAt: instantOrNull(row.onsetAt),
    expiresAt: instant(row.expiresAt),
    endsAt: instantOrNull(row.endsAt),
    office: row.office,
    senderName: row.senderName,
    areaDescription: row.areaDesc,
    zones: row.zones,
    description: row.description,
    instruction: row.instruction,
    response: row.response,
    language: row.language,
    vtec: row.vtec,
    references: row.references,
    geometry: row.geometry,
  };
}
