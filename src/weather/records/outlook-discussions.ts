import { and, desc, eq, lte } from 'drizzle-orm';
import { bigint, pgTable, text } from 'drizzle-orm/pg-core';
import { instantColumn } from '../rows/columns.ts';
import { newNotes, noReading, reading, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import { instant } from '../instant.ts';
import { cleanerOf } from '../rows/cleaner.ts';
import { pastCheck } from '../rows/field-checks.ts';
import { firstClean, presentUntil } from '../rows/first-clean.ts';
import {
  cleanOutlookRun,
  dayParameter,
  outlookRuns,
  requireShape,
  windowData,
  type OutlookWindowData,
} from './outlook-runs.ts';

const discussions = pgTable('outlook_discussions', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  productId: text('product_id').notNull(),
  issuedAt: instantColumn('issued_at').notNull(),
  correction: text('correction'),
  headline: text('headline'),
  summary: text('summary'),
  rawText: text('raw_text').notNull(),
});

const cleanDiscussion = cleanerOf(discussions, { key: ['productId'] });

export interface OutlookDiscussionData extends OutlookWindowData {
  productId: string;
  correction: string | null;
  headline: string | null;
  summary: string | null;
  text: string;
}

/** The discussion of the outlook issued last for a day that has one. */
export const outlookDiscussions = weatherFamily({
  tables: [outlookRuns, discussions],
  endpoint: {
    path: '/convective-outlooks/discussions',
    operationId: 'getConvectiveOutlookDiscussion',
    summary: 'The discussion of the convective outlook of a day',
    parameters: { day: dayParameter },
    maxAgeSeconds: 120,
  },
  template: 'convective_outlook_discussions',
  itemNames: {},
  read: (source, query) => requireShape(() => readDiscussion(source, query)),
});

function readDiscussion(
  { database, clock }: WeatherSource,
  { day }: { day: number },
): Promise<Reading<OutlookDiscussionData>> {
  return database.snapshot(async (queries) => {
    const now = clock.now();
    const notes = newNotes();
    const issuedAt = pastCheck(presentUntil(now));
    const found = await firstClean(
      now,
      ({ limit, offset, until }) =>
        queries
          .select({ run: outlookRuns, discussion: discussions })
          .from(outlookRuns)
          .innerJoin(discussions, eq(discussions.runId, outlookRuns.runId))
          .where(and(eq(outlookRuns.day, day), until === null ? undefined : lte(outlookRuns.issuedAt, until)))
          .orderBy(
            desc(outlookRuns.issuedAt),
            desc(outlookRuns.runId),
            desc(discussions.issuedAt),
            desc(discussions.productId),
          )
          .limit(limit)
          .offset(offset),
      (row) => {
        const run = cleanOutlookRun(row.run, notes.note, { issuedAt });
        const discussion = cleanDiscussion(row.discussion, notes.note, { issuedAt });
        return run === null || discussion === null ? null : { run, discussion };
      },
    );
    if (found === null) return noReading(notes);
    const { run, discussion } = found;
    const data = {
      ...windowData(run),
      productId: discussion.productId,
      issuedAt: instant(discussion.issuedAt),
      correction: discussion.correction,
      headline: discussion.headline,
      summary: discussion.summary,
      text: discussion.rawText,
    };
    return reading({ data, lastModified: run.receivedAt, asOf: discussion.issuedAt }, notes);
  });
}
