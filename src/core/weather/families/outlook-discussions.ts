import { desc, eq } from 'drizzle-orm';
import { bigint, pgTable, text } from 'drizzle-orm/pg-core';
import { instantColumn } from '../columns.ts';
import { nothing, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import { instant } from '../instant.ts';
import {
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

async function readDiscussion(
  { database }: WeatherSource,
  { day }: { day: number },
): Promise<Reading<OutlookDiscussionData>> {
  const [row] = await database.one((queries) =>
    queries
      .select({ run: outlookRuns, discussion: discussions })
      .from(outlookRuns)
      .innerJoin(discussions, eq(discussions.runId, outlookRuns.runId))
      .where(eq(outlookRuns.day, day))
      .orderBy(
        desc(outlookRuns.issuedAt),
        desc(outlookRuns.runId),
        desc(discussions.issuedAt),
        desc(discussions.productId),
      )
      .limit(1),
  );
  if (row === undefined) return nothing;
  const { run, discussion } = row;
  const data = {
    ...windowData(run),
    productId: discussion.productId,
    issuedAt: instant(discussion.issuedAt),
    correction: discussion.correction,
    headline: discussion.headline,
    summary: discussion.summary,
    text: discussion.rawText,
  };
  return { data, lastModified: run.receivedAt };
}
