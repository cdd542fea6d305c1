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
import { bigint, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import {
  atMostOneOf,
  choices,
  identifier,
  identifiers,
  names,
  wholeNumber,
  type ValuesOf,
} from '../../parameters.ts';
import { instantColumn } from '../columns.ts';
import type { Queries } from '../database/database.ts';
import { nothing, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import type { Geometry } from '../geometry.ts';
import { instant, instantOrNull, type Instant } from '../instant.ts';

const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'] as const;
type AlertSeverity = (typeof severities)[number];

const alertRuns = pgTable('alert_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  fetchedAt: instantColumn('fetched_at').notNull(),
  sourceUpdatedAt: instantColumn('source_updated_at'),
});
const alertRows = pgTable('alerts', {
  alertId: text('alert_id').notNull(),
  sentAt: instantColumn('sent_at').notNull(),
  effectiveAt: instantColumn('effective_at').notNull(),
  onsetAt: instantColumn('onset_at'),
  expiresAt: instantColumn('expires_at').notNull(),
  endsAt: instantColumn('ends_at'),
  status: text('status').notNull(),
  messageType: text('message_type').notNull(),
  category: text('category').notNull(),
  severity: text('severity', { enum: severities }).notNull(),
  certainty: text('certainty').notNull(),
  urgency: text('urgency').notNull(),
  event: text('event').notNull(),
  eventCode: text('event_code'),
  vtec: text('vtec').array().notNull(),
  office: text('office'),
  senderName: text('sender_name'),
  headline: text('headline'),
  description: text('description'),
  instruction: text('instruction'),
  response: text('response'),
  areaDesc: text('area_desc').notNull(),
  language: text('language').notNull(),
  parameters: jsonb('parameters').$type<Record<string, unknown>>().notNull(),
  geometry: jsonb('geometry').$type<Record<string, unknown>>(),
});
const alertRunMembers = pgTable('alert_run_members', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  alertId: text('alert_id').notNull(),
});
const alertAreas = pgTable('alert_areas', {
  alertId: text('alert_id').notNull(),
  ugc: text('ugc').notNull(),
  same: text('same'),
});
const alertReferences = pgTable('alert_references', {
  alertId: text('alert_id').notNull(),
  refId: text('ref_id').notNull(),
  refSender: text('ref_sender'),
  refSentAt: instantColumn('ref_sent_at'),
});

const parameters = {
  zone: identifiers(/^[A-Z]{2}[CZ]\d{3}$/, 50, 'a UGC code, such as NYZ072', {
    description: 'Up to 50 zones or counties (UGC codes) with commas between.',
    example: 'NYZ072,NYC061',
  }),
  area: identifier(/^[A-Z]{2}$/, 'two letters of a state or marine area, such as NY', {
    description: 'A state or marine area.',
    example: 'NY',
  }),
  office: identifier(/^[A-Z]{3}$/, 'the three letters of a forecast office, such as OKX', {
    description: 'The forecast office that issued the alert.',
    example: 'OKX',
  }),
  severity: choices(severities, {
    description: 'Any of these severities, with commas between. Without it: all.',
    example: 'Extreme,Severe',
  }),
  event: names(50, 100, {
    description: 'Any of these events, in any case, with commas between. Without it: all.',
    example: 'Tornado Warning',
  }),
  limit: wholeNumber(1, 500, 100, { description: 'Most alerts in the answer; `total` counts all.' }),
};
type AlertsQuery = ValuesOf<typeof parameters>;

export interface AlertsData {
  /** The poll whose list this is. */
  fetchedAt: Instant;
  sourceUpdatedAt: Instant | null;
  timeZone: string;
  /** All that match, of which `alerts` holds the first `limit`: most severe first, then those sent last. */
  total: number;
  alerts: AlertData[];
}

export interface AlertData {
  id: string;
  event: string;
  eventCode: string | null;
  headline: string | null;
  severity: AlertSeverity;
  certainty: string;
  urgency: string;
  status: string;
  messageType: string;
  category: string;
  sentAt: Instant;
  effectiveAt: Instant;
  onsetAt: Instant | null;
  /** When this message is to be replaced; not the end of the event, and at times before `onsetAt`. */
  expiresAt: Instant;
  /** The end of the event, if it is known. */
  endsAt: Instant | null;
  office: string | null;
  senderName: string | null;
  areaDescription: string;
  /** UGC codes. */
  zones: string[];
  description: string | null;
  instruction: string | null;
  response: string | null;
  language: string;
  vtec: string[];
  references: string[];
  geometry: Geometry | null;
}

/**
 * The alerts in force: those of the newest poll whose event has not ended. An alert that a Cancel refers to
 * stays, since the Cancel may cover only a part of it; the poll itself says what is active.
 */
export const alerts = weatherFamily({
  tables: [alertRuns, alertRows, alertRunMembers, alertAreas, alertReferences],
  endpoint: {
    path: '/alerts',
    operationId: 'listAlerts',
    summary: 'The alerts that are in force',
    parameters,
    rules: [atMostOneOf('zone', 'area', 'office')],
    maxAgeSeconds: 15,
  },
  template: 'active_alerts',
  itemNames: { alerts: 'alert', zones: 'zone', vtec: 'code', references: 'reference' },
  read: readAlerts,
});

function readAlerts({ database, clock }: WeatherSource, query: AlertsQuery): Promise<Reading<AlertsData>> {
  return database.snapshot(async (queries) => {
    const [run] = await queries
      .select()
      .from(alertRuns)
      .orderBy(desc(alertRuns.fetchedAt), desc(alertRuns.runId))
      .limit(1);
    if (run === undefined) return nothing;
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

const columns = getTableColumns(alertRows);
const severityRank = sql`array_position(array['Extreme','Severe','Moderate','Minor','Unknown'], ${alertRows.severity})`;
const zones = sql<string[]>`(select coalesce(json_agg(${alertAreas.ugc} order by ${alertAreas.ugc}), '[]')
  from ${alertAreas} where ${eq(alertAreas.alertId, alertRows.alertId)})`;
const references = sql<
  string[]
>`(select coalesce(json_agg(${alertReferences.refId} order by ${alertReferences.refId}), '[]')
  from ${alertReferences} where ${eq(alertReferences.alertId, alertRows.alertId)})`;

function selectAlerts(queries: Queries, runId: number, query: AlertsQuery, now: Date) {
  return queries
    .select({ ...columns, zones, references, total: sql<number>`(count(*) over ())::int` })
    .from(alertRunMembers)
    .innerJoin(alertRows, eq(alertRows.alertId, alertRunMembers.alertId))
    .where(
      and(
        eq(alertRunMembers.runId, runId),
        eq(alertRows.status, 'Actual'),
        notInArray(alertRows.messageType, ['Cancel', 'Ack', 'Error']),
        gt(
          sql`coalesce(${alertRows.endsAt}, ${alertRows.expiresAt})`,
          sql`${now.toISOString()}::timestamptz`,
        ),
        within(queries, query),
        query.severity.length === 0 ? undefined : inArray(alertRows.severity, [...query.severity]),
        query.event.length === 0
          ? undefined
          : inArray(
              sql`lower(${alertRows.event})`,
              query.event.map((event) => event.toLowerCase()),
            ),
      ),
    )
    .orderBy(severityRank, desc(alertRows.sentAt), asc(alertRows.alertId))
    .limit(query.limit);
}

/** At most one of the three is given. */
function within(queries: Queries, { zone, area, office }: AlertsQuery): SQL | undefined {
  const covers = (condition: SQL): SQL =>
    exists(
      queries
        .select({ one: sql`1` })
        .from(alertAreas)
        .where(and(eq(alertAreas.alertId, alertRows.alertId), condition)),
    );
  if (zone.length > 0) return covers(inArray(alertAreas.ugc, [...zone]));
  if (area !== null) return covers(sql`left(${alertAreas.ugc}, 2) = ${area}`);
  return office === null ? undefined : eq(alertRows.office, office);
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
