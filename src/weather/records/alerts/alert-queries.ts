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
import type { NoteRejection } from '../../database/cleaner.ts';
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

/** Selects alerts from the database, and converts them to the form in which they are returned. */

/** Selects alerts in a run. */
export interface InForceQuery {
  runId: bigint;
  now: Date;
  severity: readonly AlertSeverity[];
  /** Case does not matter. */
  event: readonly string[];
  zone: readonly string[];
  area: string | null;
  office: string | null;
  /** Only alerts with these ids. null for all alerts. */
  ids: readonly string[] | null;
  /** Tests and exercises instead of real alerts. */
  onlyTests?: boolean;
  /**
   * Only alerts that might apply to other zones as well, because they have no zones or some could not be
   * read.
   */
  onlyPlaceless?: boolean;
  limit: number;
}

/**
 * Returns the first `limit` alerts and the total number of alerts. Those without a valid end are counted
 * separately and left out. They are sorted last, so that no more than a page of them is read.
 */
export async function selectInForce(
  queries: Queries,
  query: InForceQuery,
  note: NoteRejection,
): Promise<{ total: number; endless: number; alerts: CleanAlert[] }> {
  const page = await inForce(queries, query);
  const alerts = page.flatMap((row) => cleanedAlert(row, note) ?? []);
  const { total = 0, endless = 0 } = page[0] ?? {};
  if (endless > page.length - alerts.length)
    for (const row of await inForce(queries, { ...query, limit: maxNoted }, not(hasEnd)))
      cleanedAlert(row, note);
  return { total, endless, alerts };
}

/**
 * The maximum number of alerts without an end to report at a time. Once these have been fixed, the next ones
 * are reported.
 */
const maxNoted = 1000;

type CleanAlert = NonNullable<ReturnType<typeof cleanedAlert>>;

function cleanedAlert(row: QueriedAlert, note: NoteRejection) {
  const alert = cleanAlert(row, note);
  if (alert === null) return null;
  const areas = row.zones.filter(({ ugc }) => ugcPattern.test(ugc));
  if (areas.length < row.zones.length)
    note({ field: 'alert_areas.ugc', reason: 'unknown_value', record: row.alertId, isLeftOut: true });
  return { ...alert, areas };
}

const columns = {
  ...getTableColumns(alertRows),
  // Convert the array to JSON, because the drivers return PostgreSQL arrays in different ways. A
  // multidimensional array becomes a flat list, and null becomes an empty one.
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

// A row can contain several SAME codes, separated by spaces.
const same = sql<string[]>`(select coalesce(json_agg(distinct code order by code), '[]') from ${alertAreas},
  unnest(string_to_array(${alertAreas.same}, ' ')) code
  where ${eq(alertAreas.alertId, alertRows.alertId)} and code <> '')`;
const wholeAlert = { ...columns, zones, same, references, isTest };

/** True if the end of the alert is valid. Otherwise, the alert is left out. */
const hasEnd = sql<boolean>`(${saneInstant(alertRows.expiresAt)}) is not null`;

/**
 * Selects a page of alerts, and counts them. Searching and sorting only involve a few small columns. If whole
 * messages were sorted, with their texts and outlines, the database would write them to a temporary file
 * every time: 100 MB for a hundred thousand alerts.
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
            // Include alerts without a valid end, so that they can be reported.
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
  // Use a subquery, so that all statements of the reader begin with SELECT.
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
 * Sorts alerts by severity, and by time if the severity is the same, newest first. Those without a valid end
 * come last.
 */
function inOrder(of: Record<'id' | 'hasEnd' | 'severityRank' | 'sentAt', SQLWrapper>): SQL[] {
  return [desc(of.hasEnd), asc(of.severityRank), desc(of.sentAt), asc(of.id)];
}

/**
 * Returns a single alert, even if it is no longer in force. Returns null if it does not exist or is invalid.
 */
export async function selectAlert(
  queries: Queries,
  id: string,
  note: NoteRejection,
): Promise<AlertData | null> {
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

/** Restricts the location. At most one of these filters may be set. */
function within(queries: Queries, { zone, area, office, ids }: InForceQuery): SQL | undefined {
  const covers = (condition: SQL): SQL => exists(areasOf(queries, condition));
  if (ids !== null)
    // Pass the ids as a single JSON value, because there can be more of them than a statement allows
    // parameters.
    return sql`${alertRows.alertId} in (select jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb))`;
  if (zone.length > 0) return covers(inArray(alertAreas.ugc, [...zone]));
  if (area !== null) return covers(sql`left(${alertAreas.ugc}, 2) = ${area}`);
  return office === null ? undefined : eq(alertRows.office, office);
}

type QueriedAlert = Omit<Awaited<ReturnType<typeof inForce>>[number], 'total' | 'endless'>;

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

/** Values in CAP are strings. If there are any others, they are returned as JSON. */
function parametersOf(parameters: Readonly<Record<string, unknown>>): AlertData['parameters'] {
  return Object.keys(parameters)
    .sort()
    .map((name) => ({ name, values: [parameters[name]].flat().map(textOf) }));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
