import { and, asc, desc, eq, lte } from 'drizzle-orm';
import { bigint, boolean, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { wholeNumber } from '../../core/lib/parameters.ts';
import { cleanerOf, pastCheck } from '../database/cleaner.ts';
import { firstClean, instantColumn, presentUntil } from '../database/columns.ts';
import { newNotes, noReading, type Reading, reading, weatherFamily, type WeatherSource } from '../family.ts';
import { officeParameter } from '../places/place-parameters.ts';
import { instant, instantOrNull } from '../values.ts';
import { type WeatherStoriesData, weatherStoriesRecord } from './family-fields.ts';

const storyRuns = pgTable('weather_story_runs', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  office: text('office').notNull(),
  fetchedAt: instantColumn('fetched_at').notNull(),
});
const stories = pgTable('weather_stories', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  position: smallint('position').notNull(),
  title: text('title').notNull(),
  description: text('description').notNull(),
  altText: text('alt_text'),
  imageUrl: text('image_url'),
  priority: boolean('priority').notNull(),
  startsAt: instantColumn('starts_at').notNull(),
  endsAt: instantColumn('ends_at').notNull(),
  updatedAt: instantColumn('updated_at'),
});

const cleanRun = cleanerOf(storyRuns, { key: ['office', 'fetchedAt'] });
const cleanStory = cleanerOf(stories, { key: ['runId', 'position'], nullable: ['startsAt', 'endsAt'] });

/**
 * The current weather stories of an office or, by default, of any office. They are in the order that the
 * office chose.
 */
export const weatherStories = weatherFamily({
  tables: [storyRuns, stories],
  endpoint: {
    path: '/weather-stories',
    operationId: 'listWeatherStories',
    summary: 'List weather stories',
    parameters: {
      office: officeParameter,
      limit: wholeNumber(1, 20, 7, { description: 'Maximum number of stories.' }),
    },
    maxAgeSeconds: 180,
  },
  record: weatherStoriesRecord,
  template: 'weather_stories',
  itemNames: { stories: 'story' },
  read: readStories,
});

function readStories(
  { database, clock }: WeatherSource,
  { office, limit }: { office: string | null; limit: number },
): Promise<Reading<WeatherStoriesData>> {
  return database.snapshot(async (queries) => {
    const now = clock.now();
    const notes = newNotes();
    const fetchedAt = pastCheck(presentUntil(now));
    const run = await firstClean(
      now,
      ({ limit, offset, until }) =>
        queries
          .select()
          .from(storyRuns)
          .where(
            and(
              office === null ? undefined : eq(storyRuns.office, office),
              until === null ? undefined : lte(storyRuns.fetchedAt, until),
            ),
          )
          .orderBy(desc(storyRuns.fetchedAt), desc(storyRuns.runId))
          .limit(limit)
          .offset(offset),
      (row) => cleanRun(row, notes.note, { fetchedAt }),
    );
    if (run === null) return noReading(notes);
    const rows = await queries
      .select()
      .from(stories)
      .where(eq(stories.runId, run.runId))
      .orderBy(asc(stories.position))
      .limit(limit);
    const clean = rows.flatMap((row) => cleanStory(row, notes.note) ?? []);
    const items = clean.map((row) => ({
      title: row.title,
      description: row.description,
      altText: row.altText,
      imageUrl: row.imageUrl,
      priority: row.priority,
      startsAt: instantOrNull(row.startsAt),
      endsAt: instantOrNull(row.endsAt),
      updatedAt: instantOrNull(row.updatedAt),
    }));
    const data = { office: run.office, fetchedAt: instant(run.fetchedAt), timeZone: 'UTC', stories: items };
    return reading({ data, lastModified: run.fetchedAt, asOf: run.fetchedAt }, notes);
  });
}
