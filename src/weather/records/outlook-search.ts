import { and, desc, eq, getTableColumns, gt, lt, lte, sql } from 'drizzle-orm';
import type { Queries } from '../database/database.ts';
import type { Notes } from '../family.ts';
import { hazards, hazardsOf, type Hazard } from '../outlook-hazards.ts';
import { pastCheck } from '../rows/field-checks.ts';
import { firstClean, presentUntil, type Page } from '../rows/first-clean.ts';
import { cleanOutlookRun, outlookRuns, outlooks } from './outlook-runs.ts';

/** The run that answers, and the runs of hazards that it lacks. */
export interface FoundRuns {
  run: Run;
  /** Hazards that the run has not, or that a newer one has, and the newest run that has them. */
  others: readonly (readonly [Hazard, Run])[];
  /** When the newest run was issued, if it is not the one that answers. */
  newerIssuedAt: Date | null;
}

interface Search {
  day: number;
  now: Date;
  isEffective: boolean;
}

type Run = NonNullable<ReturnType<typeof cleanRun>>;

/** More issues than one window ever has. */
const maxIssues = 50;

/**
 * The Storm Prediction Center posts the discussion and each hazard separately, in any order, and a fetch can
 * fail. The newest run whose main hazard has arrived answers; the discussion alone is no outlook. Every other
 * hazard comes from the newest run of an overlapping window that has it. Null: no run has any hazard.
 */
export async function findRuns(queries: Queries, search: Search, { note }: Notes): Promise<FoundRuns | null> {
  const { day, now } = search;
  const expected = hazardsOf(day);
  const [main = 'categorical'] = expected;
  let newest: Run | undefined;
  const find = (isWanted: (run: Run) => boolean): Promise<Run | null> =>
    firstClean(
      now,
      (page) => runsOf(queries, search, page),
      (row) => {
        const run = cleanRun(row, note, now);
        if (run !== null) newest ??= run;
        return run !== null && isWanted(run) ? run : null;
      },
    );
  const run =
    (await find(({ present }) => present.includes(main))) ??
    (await find(({ present }) => present.length > 0));
  if (run === null) return null;
  const isNewest = newest?.runId === run.runId;
  const isWhole = expected.every((hazard) => run.present.includes(hazard));
  const rows =
    isNewest && isWhole
      ? []
      : await runsOf(queries, search, { limit: maxIssues, offset: 0, until: presentUntil(now) }, run);
  const candidates = rows.flatMap((row) => cleanRun(row, () => undefined, now) ?? []);
  const others = expected.flatMap((hazard) => {
    const other = candidates.find(({ present }) => present.includes(hazard));
    return other === undefined || other.runId === run.runId ? [] : [[hazard, other] as const];
  });
  return { run, others, newerIssuedAt: isNewest ? null : (newest?.issuedAt ?? null) };
}

/** The newest first. With `overlapping`: those whose window has a moment in common with its window. */
function runsOf(
  queries: Queries,
  { day, now, isEffective }: Search,
  { limit, offset, until }: Page,
  overlapping?: { validFrom: Date; validUntil: Date },
) {
  return queries
    .select({ ...getTableColumns(outlookRuns), present })
    .from(outlookRuns)
    .where(
      and(
        eq(outlookRuns.day, day),
        isEffective ? and(lte(outlookRuns.validFrom, now), gt(outlookRuns.validUntil, now)) : undefined,
        until === null ? undefined : lte(outlookRuns.issuedAt, until),
        overlapping === undefined
          ? undefined
          : and(
              lt(outlookRuns.validFrom, overlapping.validUntil),
              gt(outlookRuns.validUntil, overlapping.validFrom),
            ),
      ),
    )
    .orderBy(desc(outlookRuns.issuedAt), desc(outlookRuns.runId))
    .limit(limit)
    .offset(offset);
}

function cleanRun(row: Awaited<ReturnType<typeof runsOf>>[number], note: Notes['note'], now: Date) {
  return cleanOutlookRun(row, note, { issuedAt: pastCheck(presentUntil(now)) });
}

/** Hazards of a run of which areas arrived, or that there are none. Intensities come separately. */
const present = sql<string[]>`(select coalesce(json_agg(distinct ${outlooks.hazard}), '[]') from ${outlooks}
  where ${outlooks.runId} = ${outlookRuns}.run_id and ${outlooks.kind} <> 'intensity')`.mapWith(
  (list: unknown): Hazard[] => hazards.filter((hazard) => Array.isArray(list) && list.includes(hazard)),
);
