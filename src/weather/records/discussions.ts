import { and, asc, desc, eq, lte } from 'drizzle-orm';
import { bigint, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { cleanerOf, pastCheck } from '../database/cleaner.ts';
import { firstClean, instantColumn, presentUntil } from '../database/columns.ts';
import { newNotes, noReading, type Reading, reading, weatherFamily, type WeatherSource } from '../family.ts';
import { officeParameter } from '../places/place-parameters.ts';
import { instant } from '../values.ts';
import {
  type ForecastDiscussionData,
  forecastDiscussionsRecord,
  type OutlookDiscussionData,
  outlookDiscussionsRecord,
} from './family-fields.ts';
import { cleanOutlookRun, dayParameter, outlookRuns, requireShape, windowData } from './outlook-states.ts';

export const forecastDiscussionRows = pgTable('forecast_discussions', {
  productId: text('product_id').notNull(),
  office: text('office').notNull(),
  issuedAt: instantColumn('issued_at').notNull(),
  wmoHeader: text('wmo_header'),
  awipsId: text('awips_id'),
  correction: text('correction'),
  rawText: text('raw_text').notNull(),
  receivedAt: instantColumn('received_at').notNull(),
});
const discussionSections = pgTable('forecast_discussion_sections', {
  productId: text('product_id').notNull(),
  position: smallint('position').notNull(),
  heading: text('heading').notNull(),
  qualifier: text('qualifier'),
  body: text('body').notNull(),
});

const clean = cleanerOf(forecastDiscussionRows, { key: ['productId'], nullable: ['receivedAt'] });

/** The latest area forecast discussion of an office or, by default, of any office. */
export const forecastDiscussions = weatherFamily({
  tables: [forecastDiscussionRows, discussionSections],
  endpoint: {
    path: '/forecast-discussions',
    operationId: 'getForecastDiscussion',
    summary: 'Get a forecast discussion',
    parameters: { office: officeParameter },
    maxAgeSeconds: 120,
  },
  record: forecastDiscussionsRecord,
  template: 'forecast_discussions',
  itemNames: { sections: 'section' },
  read: readDiscussion,
});

function readDiscussion(
  { database, clock }: WeatherSource,
  { office }: { office: string | null },
): Promise<Reading<ForecastDiscussionData>> {
  return database.snapshot(async (queries) => {
    const now = clock.now();
    const notes = newNotes();
    const issuedAt = pastCheck(presentUntil(now));
    const row = await firstClean(
      now,
      ({ limit, offset, until }) =>
        queries
          .select()
          .from(forecastDiscussionRows)
          .where(
            and(
              office === null ? undefined : eq(forecastDiscussionRows.office, office),
              until === null ? undefined : lte(forecastDiscussionRows.issuedAt, until),
            ),
          )
          .orderBy(desc(forecastDiscussionRows.issuedAt), desc(forecastDiscussionRows.productId))
          .limit(limit)
          .offset(offset),
      (each) => clean(each, notes.note, { issuedAt }),
    );
    if (row === null) return noReading(notes);
    const { heading, qualifier, body } = discussionSections;
    const sections = await queries
      .select({ heading, qualifier, body })
      .from(discussionSections)
      .where(eq(discussionSections.productId, row.productId))
      .orderBy(asc(discussionSections.position));
    const data = {
      id: row.productId,
      office: row.office,
      issuedAt: instant(row.issuedAt),
      timeZone: 'UTC',
      wmoHeader: row.wmoHeader,
      awipsId: row.awipsId,
      correction: row.correction,
      sections,
      text: row.rawText,
    };
    return reading({ data, lastModified: row.receivedAt, asOf: row.issuedAt }, notes);
  });
}

const discussions = pgTable('outlook_discussions', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  productId: text('product_id').notNull(),
  issuedAt: instantColumn('issued_at').notNull(),
  correction: text('correction'),
  headline: text('headline'),
  summary: text('summary'),
  rawText: text('raw_text').notNull(),
});

const cleanDiscussion = cleanerOf(discussions, { key: ['productId'] });

/**
 * The latest convective outlook discussion for a day. It can belong to an earlier outlook if the latest one
 * has no discussion yet.
 */
export const outlookDiscussions = weatherFamily({
  tables: [outlookRuns, discussions],
  endpoint: {
    path: '/convective-outlooks/discussions',
    operationId: 'getConvectiveOutlookDiscussion',
    summary: 'Get an outlook discussion',
    parameters: { day: dayParameter },
    maxAgeSeconds: 120,
  },
  record: outlookDiscussionsRecord,
  template: 'convective_outlook_discussions',
  itemNames: {},
  read: (source, query) => requireShape(() => readOutlookDiscussion(source, query)),
});

function readOutlookDiscussion(
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
