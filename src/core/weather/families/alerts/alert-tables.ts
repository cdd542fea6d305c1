import { bigint, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import { cleanerOf } from '../../rows/cleaner.ts';
import { instantColumn } from '../../rows/columns.ts';
import { oneOf } from '../../rows/field-checks.ts';

/** The tables of alerts, and what their rows are held to. */

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
});
export const alertReferences = pgTable('alert_references', {
  alertId: text('alert_id').notNull(),
  refId: text('ref_id').notNull(),
  refSender: text('ref_sender'),
  refSentAt: instantColumn('ref_sent_at'),
});

export const cleanRun = cleanerOf(alertRuns, { key: ['runId'] });
/** An alert with a field that cannot be is still an alert: only its end has to be known. */
export const cleanAlert = cleanerOf(alertRows, {
  key: ['alertId'],
  nullable: ['sentAt', 'effectiveAt', 'severity', 'certainty', 'urgency', 'parameters'],
  checks: {
    certainty: oneOf(['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown']),
    urgency: oneOf(['Immediate', 'Expected', 'Future', 'Past', 'Unknown']),
  },
});
export const ugcPattern = /^[A-Z]{2}[CZ]\d{3}$/;
