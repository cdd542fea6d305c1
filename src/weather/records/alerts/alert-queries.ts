import {
  and,
  asc,
  desc,
  eq,
  exists,
  getTableColumns,
  gt,
  inArray,
  not,
  notInArray,
  or,
  type SQL,
  sql,
  type SQLWrapper,
} from 'drizzle-orm';
import type { Note } from '../../database/cleaner.ts';
import { saneInstant } from '../../database/columns.ts';
import type { Queries } from '../../database/database.ts';
import { zoneKey, zoneKind } from '../../places/position.ts';
import { instant, instantOrNull } from '../../values.ts';
import { type AlertData } from '../family-fields.ts';
import {
  alertAreas,
  alertReferences,
  alertRows,
  alertRunMembers,
  type AlertSeverity,
  cleanAlert,
  isPartlyUnreadable,
  isTest,
  kindOfArea,
  ugcPattern,
} from './alert-tables.ts';

/** Alerts as they are read, cleaned and returned. */

/** Selects alerts of a poll. */
export interface InForceQuery {
  runId: number;
  now: Date;
  severity: readonly AlertSeverity[];
  /** Compared ignoring case. */
  event: readonly string[];
  zone: readonly string[];
  area: string | null;
  office: string | null;
  /** Selects only alerts with these ids, or all alerts if null. */
  ids: readonly string[] | null;
  /** Selects tests and exercises instead of alerts. */
  onlyTests?: boolean;
  /** Selects alerts that cannot be located by zone, because they have none or one could not be read. */
  onlyPlaceless?: boolean;
  limit: number;
}

/**
 * Returns the first `limit` valid alerts and the total number of alerts. An alert without a known end is left
 * out. Such alerts are sorted last, so that at most one page of them is read, no matter how many there are.
 */
export async function selectInForce(
  queries: Queries,
  query: InForceQuery,
  note: Note,
): Promise<{ total: number; endless: number; alerts: CleanAlert[] }> {
  const page = await inForce(queries, query);
  const alerts = page.flatMap((row) => cleanedAlert(row, note) ?? []);
  const { total = 0, endless = 0 } = page[0] ?? {};
  if (endless > page.length - alerts.length)
    for (const row of await inForce(queries, { ...query, limit: maxNoted }, not(hasEnd)))
      cleanedAlert(row, note);
  return { total, endless, alerts };
}

/** Maximum number of notes about alerts without an end. Once these are fixed, later reads note the others. */
const maxNoted = 1000;

type CleanAlert = NonNullable<ReturnType<typeof cleanedAlert>>;

function cleanedAlert(row: AlertRow, note: Note) {
  const alert = cleanAlert(row, note);
  if (alert === null) return null;
  const areas = row.zones.filter(({ ugc }) => ugcPattern.test(ugc));
  if (areas.length < row.zones.length)
    note({ field: 'alert_areas.ugc', reason: 'unknown_value', record: row.alertId, isLeftOut: true });
  return { ...alert, areas };
}

const columns = {
  ...getTableColumns(alertRows),
  // The drivers read PostgreSQL arrays differently, but handle JSON lists the same way. A multidimensional
  // array becomes a plain list, and a missing one becomes an empty list.
  vtec: sql<(string | null)[]>`(select coalesce(json_agg(code order by at), '[]')
    from unnest(${alertRows.vtec}) with ordinality codes (code, at))`,
};
const severityRank = sql`array_position(array['Extreme','Severe','Moderate','Minor','Unknown'], ${alertRows.severity})`;
const zones = sql<
  { ugc: string; kind: string | null }[]
>`(select coalesce(json_agg(json_build_object('ugc', ${alertAreas.ugc}, 'kind', ${kindOfArea}) order by ${alertAreas.ugc}), '[]')
  from ${alertAreas} where ${eq(alertAreas.alertId, alertRows.alertId)})`;
const references = sql<
  string[]
>`(select coalesce(json_agg(${alertReferences.refId} order by ${alertReferences.refId}), '[]')
  from ${alertReferences} where ${eq(alertReferences.alertId, alertRows.alertId)})`;

// An area can have any number of codes, separated by spaces.
const same = sql<string[]>`(select coalesce(json_agg(distinct code order by code), '[]') from ${alertAreas},
  unnest(string_to_array(${alertAreas.same}, ' ')) code
  where ${eq(alertAreas.alertId, alertRows.alertId)} and code <> '')`;
const wholeAlert = { ...columns, zones, same, references, isTest };

/** True if the row has a plausible end. An alert without one is left out. */
const hasEnd = sql<boolean>`(${saneInstant(alertRows.expiresAt)}) is not null`;

/**
 * Selects one page of alerts and their total number. The search, the count and the sort use a few narrow
 * columns. Sorting whole messages, with texts and outlines, would write them to a temporary file for each
 * answer: 100 MB for a hundred thousand alerts.
 */
function inForce(queries: Queries, query: InForceQuery, only?: SQL) {
  const found = queries.$with('found').as(
    queries
      .select({
        id: sql<string>`${alertRows.alertId}`.as('id'),
        hasEnd: hasEnd.as('has_end'),
        severityRank: severityRank.as('severity_rank'),
        sentAt: sql`${alertRows.sentAt}`.as('sent_at'),
      })
      .from(alertRunMembers)
      .innerJoin(alertRows, eq(alertRows.alertId, alertRunMembers.alertId))
      .where(
        and(
          eq(alertRunMembers.runId, query.runId),
          query.onlyTests === true ? isTest : and(eq(alertRows.status, 'Actual'), not(isTest)),
          query.onlyPlaceless === true ? or(not(exists(areasOf(queries))), isPartlyUnreadable) : undefined,
          notInArray(alertRows.messageType, ['Cancel', 'Ack', 'Error']),
          gt(
            // Includes alerts without a plausible end, so that they are noted.
            sql`coalesce(${saneInstant(alertRows.endsAt)}, ${saneInstant(alertRows.expiresAt)}, 'infinity')`,
            sql`${query.now.toISOString()}::timestamptz`,
          ),
          only,
          within(queries, query),
          query.severity.length === 0 ? undefined : inArray(alertRows.severity, [...query.severity]),
          query.event.length === 0
            ? undefined
            : inArray(
                sql`lower(${alertRows.event})`,
                query.event.map((event) => event.toLowerCase()),
              ),
        ),
      ),
  );
  const total = sql<number>`(select count(*) from ${found} where ${found.hasEnd})::int`;
  const endless = sql<number>`(select count(*) from ${found} where ${not(found.hasEnd)})::int`;
  // Nested, so that every statement of the reader begins with SELECT.
  const page = queries
    .with(found)
    .select({
      id: found.id,
      hasEnd: found.hasEnd,
      severityRank: found.severityRank,
      sentAt: found.sentAt,
      total: total.as('total'),
      endless: endless.as('endless'),
    })
    .from(found)
    .orderBy(...inOrder(found))
    .limit(query.limit)
    .as('page');
  return queries
    .select({ ...wholeAlert, total: page.total, endless: page.endless })
    .from(page)
    .innerJoin(alertRows, eq(alertRows.alertId, page.id))
    .orderBy(...inOrder(page));
}

/**
 * Orders alerts by severity, most severe first, then newest first. Rows without a plausible end come last.
 */
function inOrder(of: Record<'id' | 'hasEnd' | 'severityRank' | 'sentAt', SQLWrapper>): SQL[] {
  return [desc(of.hasEnd), asc(of.severityRank), desc(of.sentAt), asc(of.id)];
}

/** Returns one alert, whether or not it is in force. Returns null if it is missing or invalid. */
export async function selectAlert(queries: Queries, id: string, note: Note): Promise<AlertData | null> {
  const [row] = await queries.select(wholeAlert).from(alertRows).where(eq(alertRows.alertId, id));
  const alert = row === undefined ? null : cleanedAlert(row, note);
  return alert === null ? null : alertData(alert);
}

function areasOf(queries: Queries, condition?: SQL) {
  return queries
    .select({ one: sql`1` })
    .from(alertAreas)
    .where(and(eq(alertAreas.alertId, alertRows.alertId), condition));
}

/** At most one of the filters is set. */
function within(queries: Queries, { zone, area, office, ids }: InForceQuery): SQL | undefined {
  const covers = (condition: SQL): SQL => exists(areasOf(queries, condition));
  if (ids !== null)
    // Passed as one JSON value, because there may be more identifiers than a statement allows parameters.
    return sql`${alertRows.alertId} in (select jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb))`;
  if (zone.length > 0) return covers(inArray(alertAreas.ugc, [...zone]));
  if (area !== null) return covers(sql`left(${alertAreas.ugc}, 2) = ${area}`);
  return office === null ? undefined : eq(alertRows.office, office);
}

type AlertRow = Omit<Awaited<ReturnType<typeof inForce>>[number], 'total' | 'endless'>;

export function alertData(row: CleanAlert): AlertData {
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
    zones: row.areas.map(({ ugc }) => ugc),
    affectedZones: row.areas.map(({ ugc, kind }) => zoneKey(ugc, zoneKind(ugc, kind ?? ''))),
    isTest: row.isTest,
    description: row.description,
    instruction: row.instruction,
    response: row.response,
    language: row.language,
    vtec: row.vtec,
    same: row.same,
    parameters: parametersOf(row.parameters ?? {}),
    references: row.references,
    geometry: row.geometry,
  };
}

/** CAP values are text. Any other value is returned as JSON text. */
function parametersOf(parameters: Readonly<Record<string, unknown>>): AlertData['parameters'] {
  return Object.keys(parameters)
    .sort()
    .map((name) => ({ name, values: [parameters[name]].flat().map(textOf) }));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
