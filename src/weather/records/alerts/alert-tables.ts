import { sql } from 'drizzle-orm';
import { bigint, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import { cleanerOf, oneOf } from '../../database/cleaner.ts';
import { instantColumn } from '../../database/columns.ts';
import { zoneKinds } from '../../places/position.ts';

/** The tables for alerts, and how to validate their rows. */

export const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'] as const;
export type AlertSeverity = (typeof severities)[number];

export const alertRuns = pgTable('alert_runs', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
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
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  alertId: text('alert_id').notNull(),
});
export const alertAreas = pgTable('alert_areas', {
  alertId: text('alert_id').notNull(),
  ugc: text('ugc').notNull(),
  same: text('same'),
  // Always use `kindOfArea` to read this column. It does not exist in tables created by an earlier version.
  kind: text('kind', { enum: zoneKinds }),
});
export const alertReferences = pgTable('alert_references', {
  alertId: text('alert_id').notNull(),
  refId: text('ref_id').notNull(),
  refSender: text('ref_sender'),
  refSentAt: instantColumn('ref_sent_at'),
});

/**
 * The kind of zone that a code in `alert_areas` refers to. This is the kind that the feeder stored or,
 * without one, `fire` if the alert is for fire weather. null if the code can only mean one zone. The row must
 * be joined with its alert.
 */
export const kindOfArea = sql<string | null>`coalesce(to_jsonb(${alertAreas}) ->> 'kind',
  case when ${alertRows.vtec}::text like '%.FW.%' or ${alertRows.event} ~* '^(red flag|fire weather|extreme fire)' then 'fire' end)`;

/** True if some of an alert's areas could not be read, so that it might apply to more than its zones. */
export const isPartlyUnreadable = sql<boolean>`jsonb_exists(${alertRows.parameters}, 'UnreadableUGC')`;
/**
 * True if the geometry of an alert is incomplete. In that case, it also applies to its zones, and might apply
 * elsewhere.
 */
export const isPartlyOutlined = sql<boolean>`jsonb_exists(${alertRows.parameters}, 'UnreadableOutline')`;

/**
 * True if an alert is a test or exercise. Either its status says so, or all of its VTEC codes are in class T.
 * Flood codes (H-VTEC) have no class and do not count. Class X marks an experimental code in a real product
 * (NWSI 10-1703), so it is not a test. The feeder also looks at the text of the message, and sets the status
 * to `Test` if necessary.
 */
export const isTest = sql<boolean>`(${alertRows.status} in ('Test', 'Exercise', 'Draft')
  or (exists (select from unnest(${alertRows.vtec}) as code where code ~ '^/T\\.')
    and not exists (select from unnest(${alertRows.vtec}) as code where code !~ '^/(T\\.|[A-Z0-9]{5}\\.)')))`;

export const cleanRun = cleanerOf(alertRuns, { key: ['runId'] });
/** Only a valid end is required. If another field is invalid, the alert still counts. */
export const cleanAlert = cleanerOf(alertRows, {
  key: ['alertId'],
  nullable: ['sentAt', 'effectiveAt', 'severity', 'certainty', 'urgency', 'parameters'],
  checks: {
    certainty: oneOf(['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown']),
    urgency: oneOf(['Immediate', 'Expected', 'Future', 'Past', 'Unknown']),
  },
});
export const ugcPattern = /^[A-Z]{2}[CZ]\d{3}$/;
