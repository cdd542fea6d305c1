import { and, asc, desc, eq, getTableColumns, gt, inArray, lt, lte, sql } from 'drizzle-orm';
import { choice, choices, flag, type ValuesOf } from '../../core/lib/parameters.ts';
import { cleanerOf, pastCheck } from '../database/cleaner.ts';
import { firstClean, presentUntil, type RowRange } from '../database/columns.ts';
import type { Queries } from '../database/database.ts';
import {
  newNotes,
  noReading,
  type Notes,
  type Reading,
  reading,
  weatherFamily,
  type WeatherSource,
} from '../family.ts';
import { pointParameter } from '../places/place-parameters.ts';
import { isInContiguousStates } from '../places/position.ts';
import { converterOf } from '../units.ts';
import { instant } from '../values.ts';
import {
  type ConvectiveOutlookData,
  convectiveOutlooksRecord,
  type Hazard,
  hazards,
  type OutlookAreaData,
} from './family-fields.ts';
import {
  cleanOutlookRun,
  dayParameter,
  hazardsOf,
  hazardStates,
  highestCategory,
  isMarker,
  outlookRuns,
  outlooks,
  requireShape,
  riskAt,
  unknownParts,
  windowData,
} from './outlook-states.ts';

const cleanArea = cleanerOf(outlooks, { key: ['runId', 'hazard', 'label', 'part'], nullable: ['geometry'] });

const parameters = {
  day: dayParameter,
  hazard: choices(hazards, {
    description: 'Hazards, comma-separated. Default: all.',
    example: 'categorical,tornado',
  }),
  select: choice(['issued', 'effective'], 'issued', {
    description: '`issued`: the outlook issued last. `effective`: the last whose window holds this moment.',
  }),
  point: pointParameter(
    'Latitude and longitude. Returns only areas that contain the point, and the risk of each hazard there (`risk`).',
  ),
  geometry: flag(true, { description: 'Includes the geometry of areas.' }),
};

/**
 * The latest outlook for a day or, with `select=effective`, the latest one that is valid now. The hazards of
 * an outlook are published one by one, so until all of them have arrived, `findRuns` uses older ones in their
 * place. An outlook's valid time is always read from the data, because it can be shorter than usual.
 */
export const convectiveOutlooks = weatherFamily({
  tables: [outlookRuns, outlooks],
  endpoint: {
    path: '/convective-outlooks',
    operationId: 'getConvectiveOutlook',
    summary: 'Get a convective outlook',
    parameters,
    maxAgeSeconds: 120,
  },
  record: convectiveOutlooksRecord,
  template: 'convective_outlooks',
  itemNames: { areas: 'area', risk: 'hazard' },
  features: ({ areas, ...about }: ConvectiveOutlookData) => ({
    about,
    places: areas.map(({ geometry, ...properties }) => ({ id: null, geometry, properties })),
  }),
  read: (source, query) => requireShape(() => readOutlook(source, query)),
});

function readOutlook(
  { database, clock }: WeatherSource,
  { day, hazard, select, point, geometry }: ValuesOf<typeof parameters>,
): Promise<Reading<ConvectiveOutlookData>> {
  return database.snapshot(async (queries) => {
    const now = clock.now();
    const notes = newNotes();
    const found = await findRuns(queries, { day, now, isEffective: select === 'effective' }, notes);
    if (found === null) return noReading(notes);
    const { run } = found;
    const isRead = geometry || point !== null;
    const rows = (await rowsOf(queries, found, isRead)).flatMap(
      // If the geometry was not read, or the row is about a whole hazard, a missing geometry is not an error.
      (row) => cleanArea(row, notes.note, isRead && !isMarker(row) ? {} : { geometry: () => null }) ?? [],
    );
    const { percentage } = converterOf('si');
    const { contains } = await import('../places/outlines.ts');
    const all = rows.map(({ probabilityPct, geometry: outline, ...row }) => ({
      ...row,
      probability: percentage(probabilityPct),
      geometry: outline,
      isThere: point === null || outline === null ? null : contains(outline, point),
    }));
    const states = hazardStates(day, all);
    const asked = [...states].filter(([name]) => hazard.length === 0 || hazard.includes(name));
    const data: ConvectiveOutlookData = {
      ...windowData(run),
      forecaster: run.forecaster,
      maximumCategory: highestCategory(states),
      risk:
        point === null ? null : asked.map(([name, one]) => riskAt(name, one, isInContiguousStates(point))),
      areas: asked
        .flatMap(([, { areas }]) => areas)
        .filter(({ isThere }) => point === null || isThere === true)
        .map((area) => areaData(area, geometry)),
    };
    const unknown = unknownParts(states, hazard);
    const isWhole = unknown.length === 0 && found.others.length === 0 && found.newerIssuedAt === null;
    // Do not send a date if the response can change without it: which outlook is effective depends on the
    // time, and a missing part may arrive with an older date.
    const lastModified = select === 'effective' || !isWhole ? null : run.receivedAt;
    return {
      ...reading({ data, lastModified, asOf: run.issuedAt }, notes),
      unknown,
      otherIssues: found.others.map(([field, { issuedAt }]) => ({ field, issuedAt: instant(issuedAt) })),
      newerIssuedAt: found.newerIssuedAt === null ? undefined : instant(found.newerIssuedAt),
    };
  });
}

function areaData(area: OutlookAreaData, withGeometry: boolean): OutlookAreaData {
  const { hazard, kind, label, labelText, rank, probability, stroke, fill, geometry } = area;
  return {
    hazard,
    kind,
    label,
    labelText,
    rank,
    probability,
    stroke,
    fill,
    geometry: withGeometry ? geometry : null,
  };
}

/** Returns the rows of the run, with those of some hazards taken from other runs. */
async function rowsOf(queries: Queries, { run, others }: FoundRuns, isRead: boolean) {
  const { geometry: shape, ...columns } = getTableColumns(outlooks);
  const rows = await queries
    .select({ ...columns, geometry: isRead ? shape : sql<null>`null` })
    .from(outlooks)
    .where(inArray(outlooks.runId, [run.runId, ...others.map(([, other]) => other.runId)]))
    .orderBy(asc(hazardRank), asc(outlooks.kind), asc(outlooks.rank), asc(outlooks.part));
  const runOf = new Map(others.map(([hazard, other]) => [hazard, other.runId]));
  return rows.filter((row) => row.runId === (runOf.get(row.hazard) ?? run.runId));
}

const hazardRank = sql`array_position(array['categorical','tornado','wind','hail','any_severe'], ${outlooks.hazard})`;

/** The run to return, and other runs for the hazards that it does not have. */
interface FoundRuns {
  run: StoredOutlook;
  /** The runs to use for single hazards that are missing in this run, or newer in another one. */
  others: readonly (readonly [Hazard, StoredOutlook])[];
  /** When the newest run was issued, if that is not the run to return. */
  newerIssuedAt: Date | null;
}

interface OutlookSearch {
  day: number;
  now: Date;
  isEffective: boolean;
}

type StoredOutlook = NonNullable<ReturnType<typeof cleanRun>>;

/** More runs than there ever are for the same valid time. */
const maxIssues = 50;

/**
 * Finds the run to return. The Storm Prediction Center publishes the discussion and each hazard separately,
 * in any order, and fetching them can fail. This returns the newest run that has the main hazard, since a
 * discussion by itself is not an outlook. For each of the other hazards, it returns the newest run that has
 * that hazard and overlaps the valid time. Returns null if there are no hazards at all.
 */
async function findRuns(queries: Queries, search: OutlookSearch, { note }: Notes): Promise<FoundRuns | null> {
  const { day, now } = search;
  const expected = hazardsOf(day);
  const [main = 'categorical'] = expected;
  let newest: StoredOutlook | undefined;
  const find = (isWanted: (run: StoredOutlook) => boolean): Promise<StoredOutlook | null> =>
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

/** Selects runs, newest first. If `overlapping` is given, their valid time must overlap it. */
function runsOf(
  queries: Queries,
  { day, now, isEffective }: OutlookSearch,
  { limit, offset, until }: RowRange,
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

/**
 * The hazards of a run that have been received, including those without areas. Intensities do not count,
 * because they arrive separately.
 */
const present = sql<string[]>`(select coalesce(json_agg(distinct ${outlooks.hazard}), '[]') from ${outlooks}
  where ${outlooks.runId} = ${outlookRuns}.run_id and ${outlooks.kind} <> 'intensity')`.mapWith(
  (list: unknown): Hazard[] => hazards.filter((hazard) => Array.isArray(list) && list.includes(hazard)),
);
