import {
  and,
  asc,
  desc,
  eq,
  exists,
  getTableColumns,
  gt,
  inArray,
  lte,
  notInArray,
  sql,
  type SQL,
} from 'drizzle-orm';
import {
  atMostOneOf,
  choices,
  identifier,
  identifiers,
  names,
  wholeNumber,
  type ValuesOf,
} from '../../parameters.ts';
import type { Queries } from '../database/database.ts';
import { newNotes, noReading, reading, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import type { Geometry } from '../geometry.ts';
import { instant, instantOrNull, type Instant } from '../instant.ts';
import { saneInstant } from '../rows/columns.ts';
import { pastCheck } from '../rows/field-checks.ts';
import { firstClean, presentUntil } from '../rows/first-clean.ts';
import type { Note } from '../rows/rejections.ts';
import {
  alertAreas,
  alertReferences,
  alertRows,
  alertRunMembers,
  alertRuns,
  cleanAlert,
  cleanRun,
  severities,
  ugcPattern,
  type AlertSeverity,
} from './alert-tables.ts';

const parameters = {
  zone: identifiers(ugcPattern, 50, 'a UGC code, such as NYZ072', {
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
  sentAt: Instant | null;
  effectiveAt: Instant | null;
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
  vtec: (string | null)[];
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
  features: ({ alerts, ...about }: AlertsData) => ({
    about,
    places: alerts.map(({ geometry, ...properties }) => ({ id: properties.id, geometry, properties })),
  }),
  read: readAlerts,
});

function readAlerts({ database, clock }: WeatherSource, query: AlertsQuery): Promise<Reading<AlertsData>> {
  return database.snapshot(async (queries) => {
    const now = clock.now();
    const notes = newNotes();
    const fetchedAt = pastCheck(presentUntil(now));
    const run = await firstClean(
      now,
      ({ limit, offset, until }) =>
        queries
          .select()
          .from(alertRuns)
          .where(until === null ? undefined : lte(alertRuns.fetchedAt, until))
          .orderBy(desc(alertRuns.fetchedAt), desc(alertRuns.runId))
          .limit(limit)
          .offset(offset),
      (row) => cleanRun(row, notes.note, { fetchedAt }),
    );
    if (run === null) return noReading(notes);
    const { total, alerts } = await selectClean(queries, { runId: run.runId, query, now }, notes.note);
    const data = {
      fetchedAt: instant(run.fetchedAt),
      sourceUpdatedAt: instantOrNull(run.sourceUpdatedAt),
      timeZone: 'UTC',
      total,
      alerts: alerts.map(alertData),
    };
    return reading({ data, lastModified: null, asOf: run.fetchedAt }, notes);
  });
}

/** The limit counts what is clean, so where something is left out all rows are looked at. */
async function selectClean(
  queries: Queries,
  { runId, query, now }: { runId: number; query: AlertsQuery; now: Date },
  note: Note,
): Promise<{ total: number; alerts: CleanAlert[] }> {
  const first = await selectAlerts(queries, runId, query, now);
  const alerts = first.flatMap((row) => clean(row, now, note) ?? []);
  if (alerts.length === first.length) return { total: first[0]?.total ?? 0, alerts };
  const rows = await selectAlerts(queries, runId, { ...query, limit: mostMembers }, now);
  const all = rows.flatMap((row) => clean(row, now, note) ?? []);
  return { total: all.length, alerts: all.slice(0, query.limit) };
}

const mostMembers = 100_000;

type CleanAlert = NonNullable<ReturnType<typeof clean>>;

/** Null if it is none, or if it is over by what is left of it. */
function clean(row: AlertRow, now: Date, note: Note) {
  const alert = cleanAlert(row, note);
  if (alert === null || (alert.endsAt ?? alert.expiresAt) <= now) return null;
  const zones = row.zones.filter((ugc) => ugcPattern.test(ugc));
  if (zones.length < row.zones.length)
    note({ field: 'alert_areas.ugc', reason: 'unknown_value', record: row.alertId, isLeftOut: true });
  return { ...alert, zones };
}

const columns = {
  ...getTableColumns(alertRows),
  // An array of PostgreSQL is read differently by each driver, a JSON list by none.
  vtec: sql<(string | null)[]>`to_json(${alertRows.vtec})`,
};
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
          // An alert whose ends are no instants comes along, so that it is noted.
          sql`coalesce(${saneInstant(alertRows.endsAt)}, ${saneInstant(alertRows.expiresAt)}, 'infinity')`,
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

function alertData(row: CleanAlert): AlertData {
  return {
    id: row.alertId,
    event: row.event,
    eventCode: row.eventCode,
    headline: row.headline,
    severity: row.severity ?? 'Unknown',
    certainty: row.certainty ?? 'Unknown',
    urgency: row.urgency ?? 'Unknown',
    status: row.status,
    messageType: row.messageType,
    category: row.category,
    sentAt: instantOrNull(row.sentAt),
    effectiveAt: instantOrNull(row.effectiveAt),
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
