import { sql } from 'drizzle-orm';
import { bigint, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import { cleanerOf, oneOf } from '../../database/cleaner.ts';
import { instantColumn } from '../../database/columns.ts';
import { zoneKinds } from '../../places/position.ts';

/** The alert tables, and the checks for their rows. */

export const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'] as const;
export type AlertSeverity = (typeof severities)[number];

export const alertRuns = pgTable('alert_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  fetchedAt: instantColumn('fetched_at').notNull(),
  sourceUpdatedAt: instantColumn('source_updated_at'),
});
export const alertRows = pgTable('alerts', {
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
export const alertRunMembers = pgTable('alert_run_members', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  alertId: text('alert_id').notNull(),
});
export const alertAreas = pgTable('alert_areas', {
  alertId: text('alert_id').notNull(),
  ugc: text('ugc').notNull(),
  same: text('same'),
  // Read only through `kindOfArea`, because an earlier version's tables do not have this column.
  kind: text('kind', { enum: zoneKinds }),
});
export const alertReferences = pgTable('alert_references', {
  alertId: text('alert_id').notNull(),
  refId: text('ref_id').notNull(),
  refSender: text('ref_sender'),
  refSentAt: instantColumn('ref_sent_at'),
});

/**
 * The kind of zone that an alert's code refers to: as given by the feeder, else `fire` for fire-weather
 * products. null if the code itself is unambiguous. Reads a row of `alert_areas` joined with its alert.
 */
export const kindOfArea = sql<string | null>`coalesce(to_jsonb(${alertAreas}) ->> 'kind',
  case when ${alertRows.vtec}::text like '%.FW.%' or ${alertRows.event} ~* '^(red flag|fire weather|extreme fire)' then 'fire' end)`;

/** True if some of an alert's areas could not be read, so that its zones cover only part of its location. */
export const isPartlyUnreadable = sql<boolean>`jsonb_exists(${alertRows.parameters}, 'UnreadableUGC')`;
/**
 * True if an alert's geometry covers only part of its location, and its zones and unknown areas make up the
 * rest.
 */
export const isPartlyOutlined = sql<boolean>`jsonb_exists(${alertRows.parameters}, 'UnreadableOutline')`;

/**
 * True if an alert is a test or an exercise. This is determined by its status, or because all its VTEC codes
 * have the class T, except for flood codes (H-VTEC), which have no class. The class X marks an experimental
 * code in an operational product, which is not a test (NWSI 10-1703). The feeder also examines a message's
 * wording and gives it the status `Test`.
 */
export const isTest = sql<boolean>`(${alertRows.status} in ('Test', 'Exercise', 'Draft')
  or (exists (select from unnest(${alertRows.vtec}) as code where code ~ '^/T\\.')
    and not exists (select from unnest(${alertRows.vtec}) as code where code !~ '^/(T\\.|[A-Z0-9]{5}\\.)')))`;

export const cleanRun = cleanerOf(alertRuns, { key: ['runId'] });
/** Only the end is required. An alert with an impossible value in any other field is still an alert. */
export const cleanAlert = cleanerOf(alertRows, {
  key: ['alertId'],
  nullable: ['sentAt', 'effectiveAt', 'severity', 'certainty', 'urgency', 'parameters'],
  checks: {
    certainty: oneOf(['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown']),
    urgency: oneOf(['Immediate', 'Expected', 'Future', 'Past', 'Unknown']),
  },
});
export const ugcPattern = /^[A-Z]{2}[CZ]\d{3}$/;
