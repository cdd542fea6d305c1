import { and, asc, desc, eq, lte } from 'drizzle-orm';
import { pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { instantColumn } from '../rows/columns.ts';
import { newNotes, noReading, reading, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import { instant, type Instant } from '../instant.ts';
import { officeParameter } from '../parameters.ts';
import { cleanerOf } from '../rows/cleaner.ts';
import { pastCheck } from '../rows/field-checks.ts';
import { firstClean, presentUntil } from '../rows/first-clean.ts';

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

export interface ForecastDiscussionData {
  id: string;
  office: string;
  issuedAt: Instant;
  timeZone: string;
  wmoHeader: string | null;
  awipsId: string | null;
  correction: string | null;
  sections: DiscussionSectionData[];
  text: string;
}

export interface DiscussionSectionData {
  heading: string;
  /** Such as `/through Tonight/`, without the slashes. */
  qualifier: string | null;
  body: string;
}

/** The newest forecast discussion of an office, or of any. */
export const forecastDiscussions = weatherFamily({
  tables: [forecastDiscussionRows, discussionSections],
  endpoint: {
    path: '/forecast-discussions',
    operationId: 'getForecastDiscussion',
    summary: 'The newest forecast discussion',
    parameters: { office: officeParameter },
    maxAgeSeconds: 120,
  },
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
