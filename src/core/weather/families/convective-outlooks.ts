import { and, asc, desc, eq, getTableColumns, gt, inArray, lte, sql } from 'drizzle-orm';
import type { Clock } from '../../clock.ts';
import type { WeatherDatabase } from '../database.ts';
import { outlookShapeRequired } from '../database-errors.ts';
import { instant } from '../instant.ts';
import type { WeatherReader } from '../reader.ts';
import type { Geometry } from '../records.ts';
import { outlookDiscussions, outlookRuns, outlooks } from '../tables.ts';
import { converterOf } from '../units.ts';

/**
 * The outlook issued last for a day, or the one of those whose window holds this moment. A window may be cut
 * short: none is assumed.
 */
export function convectiveOutlooksReader(
  database: WeatherDatabase,
  clock: Clock,
): WeatherReader['convectiveOutlooks'] {
  return ({ day, hazards, select, geometry }) =>
    requireShape(() =>
      database.snapshot(async (queries) => {
        const now = clock.now();
        const effective =
          select === 'effective'
            ? and(lte(outlookRuns.validFrom, now), gt(outlookRuns.validUntil, now))
            : undefined;
        const [run] = await queries
          .select({ ...getTableColumns(outlookRuns), maximumCategory })
          .from(outlookRuns)
          .where(and(eq(outlookRuns.day, day), effective))
          .orderBy(desc(outlookRuns.issuedAt), desc(outlookRuns.runId))
          .limit(1);
        if (run === undefined) return { data: null, lastModified: null };
        const { geometry: shape, ...columns } = getTableColumns(outlooks);
        const rows = await queries
          .select({ ...columns, geometry: geometry ? shape : sql<Geometry | null>`null` })
          .from(outlooks)
          .where(
            and(
              eq(outlooks.runId, run.runId),
              hazards.length === 0 ? undefined : inArray(outlooks.hazard, [...hazards]),
            ),
          )
          .orderBy(asc(hazardRank), asc(outlooks.kind), asc(outlooks.rank), asc(outlooks.part));
        const { percentage } = converterOf('si');
        const areas = rows.map((row) => ({
          hazard: row.hazard,
          kind: row.kind,
          label: row.label,
          labelText: row.labelText,
          rank: row.rank,
          probability: percentage(row.probabilityPct),
          stroke: row.stroke,
          fill: row.fill,
          geometry: row.geometry,
        }));
        const data = {
          ...windowData(run),
          forecaster: run.forecaster,
          maximumCategory: run.maximumCategory,
          areas,
        };
        return { data, lastModified: run.receivedAt };
      }),
    );
}

/** The discussion of the outlook issued last for a day that has one. */
export function outlookDiscussionsReader(database: WeatherDatabase): WeatherReader['outlookDiscussions'] {
  return ({ day }) =>
    requireShape(async () => {
      const [row] = await database.one((queries) =>
        queries
          .select({ run: outlookRuns, discussion: outlookDiscussions })
          .from(outlookRuns)
          .innerJoin(outlookDiscussions, eq(outlookDiscussions.runId, outlookRuns.runId))
          .where(eq(outlookRuns.day, day))
          .orderBy(
            desc(outlookRuns.issuedAt),
            desc(outlookRuns.runId),
            desc(outlookDiscussions.issuedAt),
            desc(outlookDiscussions.productId),
          )
          .limit(1),
      );
      if (row === undefined) return { data: null, lastModified: null };
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
    });
}

const hazardRank = sql`array_position(array['categorical','tornado','wind','hail','any_severe'], ${outlooks.hazard})`;
// Told also where the hazards asked for leave the categories out.
const maximumCategory = sql<string | null>`(select ${outlooks.label} from ${outlooks}
  where ${and(eq(outlooks.runId, sql`${outlookRuns}.run_id`), eq(outlooks.hazard, 'categorical'), eq(outlooks.kind, 'category'))}
  order by ${outlooks.rank} desc limit 1)`;

interface RunWindow {
  day: number;
  issuedAt: Date;
  validFrom: Date;
  validUntil: Date;
}

function windowData({ day, issuedAt, validFrom, validUntil }: RunWindow): {
  day: number;
  issuedAt: string;
  validFrom: string;
  validUntil: string;
  timeZone: string;
} {
  return {
    day,
    issuedAt: instant(issuedAt),
    validFrom: instant(validFrom),
    validUntil: instant(validUntil),
    timeZone: 'UTC',
  };
}

async function requireShape<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outlookShapeRequired(error);
  }
}
