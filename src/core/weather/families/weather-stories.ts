import { asc, desc, eq } from 'drizzle-orm';
import type { WeatherDatabase } from '../database.ts';
import { instant, instantOrNull } from '../instant.ts';
import type { WeatherReader } from '../reader.ts';
import { weatherStories, weatherStoryRuns } from '../tables.ts';

/** The stories of the newest run of an office, or of any, in the order that the office gave them. */
export function weatherStoriesReader(database: WeatherDatabase): WeatherReader['weatherStories'] {
  return ({ office, limit }) =>
    database.snapshot(async (queries) => {
      const [run] = await queries
        .select()
        .from(weatherStoryRuns)
        .where(office === null ? undefined : eq(weatherStoryRuns.office, office))
        .orderBy(desc(weatherStoryRuns.fetchedAt), desc(weatherStoryRuns.runId))
        .limit(1);
      if (run === undefined) return { data: null, lastModified: null };
      const rows = await queries
        .select()
        .from(weatherStories)
        .where(eq(weatherStories.runId, run.runId))
        .orderBy(asc(weatherStories.position))
        .limit(limit);
      const stories = rows.map((row) => ({
        title: row.title,
        description: row.description,
        altText: row.altText,
        imageUrl: row.imageUrl,
        priority: row.priority,
        startsAt: instant(row.startsAt),
        endsAt: instant(row.endsAt),
        updatedAt: instantOrNull(row.updatedAt),
      }));
      const data = { office: run.office, fetchedAt: instant(run.fetchedAt), timeZone: 'UTC', stories };
      return { data, lastModified: run.fetchedAt };
    });
}
