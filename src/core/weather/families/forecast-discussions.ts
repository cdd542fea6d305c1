import { asc, desc, eq } from 'drizzle-orm';
import type { WeatherDatabase } from '../database.ts';
import { instant } from '../instant.ts';
import type { WeatherReader } from '../reader.ts';
import { forecastDiscussions, forecastDiscussionSections } from '../tables.ts';

/** The newest forecast discussion of an office, or of any. */
export function forecastDiscussionsReader(database: WeatherDatabase): WeatherReader['forecastDiscussions'] {
  return ({ office }) =>
    database.snapshot(async (queries) => {
      const [row] = await queries
        .select()
        .from(forecastDiscussions)
        .where(office === null ? undefined : eq(forecastDiscussions.office, office))
        .orderBy(desc(forecastDiscussions.issuedAt), desc(forecastDiscussions.productId))
        .limit(1);
      if (row === undefined) return { data: null, lastModified: null };
      const { heading, qualifier, body } = forecastDiscussionSections;
      const sections = await queries
        .select({ heading, qualifier, body })
        .from(forecastDiscussionSections)
        .where(eq(forecastDiscussionSections.productId, row.productId))
        .orderBy(asc(forecastDiscussionSections.position));
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
      return { data, lastModified: row.receivedAt };
    });
}
