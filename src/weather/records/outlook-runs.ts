import { bigint, doublePrecision, jsonb, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { wholeNumber } from '../../core/lib/parameters.ts';
import { instantColumn } from '../rows/columns.ts';
import { outlookShapeRequired } from '../database/errors.ts';
import { instant, type Instant } from '../instant.ts';
import { hazards } from '../outlook-hazards.ts';
import { cleanerOf } from '../rows/cleaner.ts';

/** What convective outlooks and their discussions have in common: runs, one for each issue of a day. */

export const outlookRuns = pgTable('outlook_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  shape: text('shape').notNull(),
  day: smallint('day').notNull(),
  issuedAt: instantColumn('issued_at').notNull(),
  validFrom: instantColumn('valid_from').notNull(),
  validUntil: instantColumn('valid_until').notNull(),
  forecaster: text('forecaster'),
  receivedAt: instantColumn('received_at').notNull(),
});

export const outlooks = pgTable('outlooks', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  hazard: text('hazard', { enum: hazards }).notNull(),
  label: text('label').notNull(),
  part: smallint('part').notNull(),
  kind: text('kind', { enum: ['category', 'probability', 'intensity'] }).notNull(),
  rank: smallint('rank').notNull(),
  probabilityPct: doublePrecision('probability_pct'),
  labelText: text('label_text'),
  stroke: text('stroke'),
  fill: text('fill'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});

/** A run can do without the moment at which it was written. */
export const cleanOutlookRun = cleanerOf(outlookRuns, { key: ['day', 'issuedAt'], nullable: ['receivedAt'] });

/** From 1, which is today. */
export const dayParameter = wholeNumber(1, 8, 1, { description: 'Day of the outlook; 1 is today.' });

export interface OutlookWindowData {
  /** 1 (today) to 8. */
  day: number;
  issuedAt: Instant;
  validFrom: Instant;
  validUntil: Instant;
  timeZone: string;
}

type Window = Pick<typeof outlookRuns.$inferSelect, 'day' | 'issuedAt' | 'validFrom' | 'validUntil'>;

export function windowData(run: Window): OutlookWindowData {
  return {
    day: run.day,
    issuedAt: instant(run.issuedAt),
    validFrom: instant(run.validFrom),
    validUntil: instant(run.validUntil),
    timeZone: 'UTC',
  };
}

/** Names the shape that outlooks need if the tables do not have it. */
export async function requireShape<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outlookShapeRequired(error);
  }
}
