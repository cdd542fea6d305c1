import { asc, desc, eq } from 'drizzle-orm';
import { bigint, boolean, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { wholeNumber } from '../../parameters.ts';
import { instantColumn } from '../columns.ts';
import { nothing, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import { instant, instantOrNull, type Instant } from '../instant.ts';
import { officeParameter } from '../parameters.ts';

const storyRuns = pgTable('weather_story_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  office: text('office').notNull(),
  fetchedAt: instantColumn('fetched_at').notNull(),
});
const stories = pgTable('weather_stories', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
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

export interface WeatherStoriesData {
  office: string;
  fetchedAt: Instant;
  timeZone: string;
  stories: WeatherStoryData[];
}

export interface WeatherStoryData {
  title: string;
  description: string;
  altText: string | null;
  imageUrl: string | null;
  priority: boolean;
  startsAt: Instant;
  endsAt: Instant;
  updatedAt: Instant | null;
}

/** The stories of the newest run of an office, or of any, in the order in which the office gave them. */
export const weatherStories = weatherFamily({
  tables: [storyRuns, stories],
  endpoint: {
    path: '/weather-stories',
    operationId: 'listWeatherStories',
    summary: 'The weather stories of a forecast office',
    parameters: {
      office: officeParameter,
      limit: wholeNumber(1, 20, 7, { description: 'Most stories in the answer.' }),
    },
    maxAgeSeconds: 180,
  },
  template: 'weather_stories',
  itemNames: { stories: 'story' },
  read: readStories,
});

function readStories(
  { database }: WeatherSource,
  { office, limit }: { office: string | null; limit: number },
): Promise<Reading<WeatherStoriesData>> {
  return database.snapshot(async (queries) => {
    const [run] = await queries
      .select()
      .from(storyRuns)
      .where(office === null ? undefined : eq(storyRuns.office, office))
      .orderBy(desc(storyRuns.fetchedAt), desc(storyRuns.runId))
      .limit(1);
    if (run === undefined) return nothing;
    const rows = await queries
      .select()
      .from(stories)
      .where(eq(stories.runId, run.runId))
      .orderBy(asc(stories.position))
      .limit(limit);
    const items = rows.map((row) => ({
      title: row.title,
      description: row.description,
      altText: row.altText,
      imageUrl: row.imageUrl,
      priority: row.priority,
      startsAt: instant(row.startsAt),
      endsAt: instant(row.endsAt),
      updatedAt: instantOrNull(row.updatedAt),
    }));
    const data = { office: run.office, fetchedAt: instant(run.fetchedAt), timeZone: 'UTC', stories: items };
    return { data, lastModified: run.fetchedAt };
  });
}
