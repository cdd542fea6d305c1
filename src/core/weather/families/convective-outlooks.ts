import { and, asc, desc, eq, getTableColumns, gt, inArray, lte, sql } from 'drizzle-orm';
import { bigint, doublePrecision, jsonb, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { choice, choices, flag, type ValuesOf } from '../../parameters.ts';
import { newNotes, noReading, reading, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import type { Geometry } from '../geometry.ts';
import { pointParameter } from '../places/place-parameters.ts';
import type { Position } from '../places/position.ts';
import { cleanerOf } from '../rows/cleaner.ts';
import { pastCheck } from '../rows/field-checks.ts';
import { firstClean, presentUntil } from '../rows/first-clean.ts';
import { converterOf } from '../units.ts';
import {
  cleanOutlookRun,
  dayParameter,
  outlookRuns,
  requireShape,
  windowData,
  type OutlookWindowData,
} from './outlook-runs.ts';

const hazards = ['categorical', 'tornado', 'wind', 'hail', 'any_severe'] as const;

const outlooks = pgTable('outlooks', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  hazard: text('hazard', { enum: hazards }).notNull(),
  label: text('label').notNull(),
  part: smallint('part').notNull(),
  kind: text('kind', { enum: ['category', 'probability', 'intensity'] }).notNull(),
  rank: smallint('rank').notNull(),
  probabilityPct: doublePrecision('probability_pct'),
  labelText: text('label_text'),
  stroke: text('stroke'),
  fill: text('fill'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});

const cleanArea = cleanerOf(outlooks, { key: ['runId', 'hazard', 'label', 'part'], nullable: ['geometry'] });

const parameters = {
  day: dayParameter,
  hazard: choices(hazards, {
    description: 'Any of these hazards, with commas between. Without it: all.',
    example: 'categorical,tornado',
  }),
  select: choice(['issued', 'effective'], 'issued', {
    description: '`issued`: the outlook issued last. `effective`: the last whose window holds this moment.',
  }),
  point: pointParameter(
    'Latitude and longitude: only areas that hold it, and the risk there of each hazard (`risk`).',
  ),
  geometry: flag(true, { description: 'Whether areas come with their geometry.' }),
};

export interface ConvectiveOutlookData extends OutlookWindowData {
  forecaster: string | null;
  /** The highest category, whatever hazards were asked for; null if there is none. */
  maximumCategory: string | null;
  /** At the point that was asked for, of each hazard that the outlook has; null without a point. */
  risk: OutlookRiskData[] | null;
  areas: OutlookAreaData[];
}

export interface OutlookAreaData {
  hazard: (typeof hazards)[number];
  kind: 'category' | 'probability' | 'intensity';
  /** `TSTM`..`HIGH`, `0.02`..`0.60`, `SIGN` or `CIG1`..`CIG3`. */
  label: string;
  labelText: string | null;
  /** Order within hazard and kind, from the least. */
  rank: number;
  /** Percent. */
  probability: number | null;
  stroke: string | null;
  fill: string | null;
  /** Null also if `geometry=false` was asked for. */
  geometry: Geometry | null;
}

export interface OutlookRiskData {
  hazard: (typeof hazards)[number];
  /** The highest category at the point; null: none, or the hazard has no categories. */
  category: string | null;
  categoryText: string | null;
  /** Percent; null: below the least that is outlined. */
  probability: number | null;
  /** The highest intensity group. */
  intensity: string | null;
}

/**
 * The outlook issued last for a day, or the one issued last among those whose window holds this moment.
 * Windows can be cut short, so none is assumed.
 */
export const convectiveOutlooks = weatherFamily({
  tables: [outlookRuns, outlooks],
  endpoint: {
    path: '/convective-outlooks',
    operationId: 'getConvectiveOutlook',
    summary: 'The convective outlook of a day',
    parameters,
    maxAgeSeconds: 120,
  },
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
    const effective =
      select === 'effective'
        ? and(lte(outlookRuns.validFrom, now), gt(outlookRuns.validUntil, now))
        : undefined;
    const notes = newNotes();
    const issuedAt = pastCheck(presentUntil(now));
    const run = await firstClean(
      now,
      ({ limit, offset, until }) =>
        queries
          .select({ ...getTableColumns(outlookRuns), maximumCategory })
          .from(outlookRuns)
          .where(
            and(
              eq(outlookRuns.day, day),
              effective,
              until === null ? undefined : lte(outlookRuns.issuedAt, until),
            ),
          )
          .orderBy(desc(outlookRuns.issuedAt), desc(outlookRuns.runId))
          .limit(limit)
          .offset(offset),
      (row) => cleanOutlookRun(row, notes.note, { issuedAt }),
    );
    if (run === null) return noReading(notes);
    const isRead = geometry || point !== null;
    const { geometry: shape, ...columns } = getTableColumns(outlooks);
    const rows = await queries
      .select({ ...columns, geometry: isRead ? shape : sql<null>`null` })
      .from(outlooks)
      .where(
        and(
          eq(outlooks.runId, run.runId),
          hazard.length === 0 ? undefined : inArray(outlooks.hazard, [...hazard]),
        ),
      )
      .orderBy(asc(hazardRank), asc(outlooks.kind), asc(outlooks.rank), asc(outlooks.part));
    const { percentage } = converterOf('si');
    const unasked = isRead ? {} : { geometry: () => null };
    // Without its geometry an area is still a line of the outlook.
    const clean = rows.flatMap((row) => cleanArea(row, notes.note, unasked) ?? []);
    const there = point === null ? clean : await areasAt(clean, point);
    const areas = there.map((row) => ({
      hazard: row.hazard,
      kind: row.kind,
      label: row.label,
      labelText: row.labelText,
      rank: row.rank,
      probability: percentage(row.probabilityPct),
      stroke: row.stroke,
      fill: row.fill,
      geometry: geometry ? row.geometry : null,
    }));
    const data = {
      ...windowData(run),
      forecaster: run.forecaster,
      maximumCategory: run.maximumCategory,
      risk: point === null ? null : riskOf(clean, areas),
      areas,
    };
    // What is effective changes with the clock.
    const lastModified = select === 'effective' ? null : run.receivedAt;
    return reading({ data, lastModified, asOf: run.issuedAt }, notes);
  });
}

async function areasAt<Area extends { geometry: Geometry | null }>(
  areas: readonly Area[],
  point: Position,
): Promise<Area[]> {
  const { contains } = await import('../places/outlines.ts');
  return areas.filter(({ geometry }) => geometry !== null && contains(geometry, point));
}

/** Areas lie within those of a lower rank, or beside them: the highest rank is the risk. */
function riskOf(
  everywhere: readonly Pick<OutlookAreaData, 'hazard'>[],
  there: readonly OutlookAreaData[],
): OutlookRiskData[] {
  const outlined = new Set(everywhere.map(({ hazard }) => hazard));
  return hazards
    .filter((hazard) => outlined.has(hazard))
    .map((hazard) => {
      const highest = (kind: OutlookAreaData['kind']): OutlookAreaData | undefined =>
        there
          .filter((area) => area.hazard === hazard && area.kind === kind)
          .reduce<OutlookAreaData | undefined>(
            (most, area) => (most === undefined || area.rank > most.rank ? area : most),
            undefined,
          );
      const category = highest('category');
      return {
        hazard,
        category: category?.label ?? null,
        categoryText: category?.labelText ?? null,
        probability: highest('probability')?.probability ?? null,
        intensity: highest('intensity')?.label ?? null,
      };
    });
}

const hazardRank = sql`array_position(array['categorical','tornado','wind','hail','any_severe'], ${outlooks.hazard})`;
// Given even if the hazards asked for leave out the categories.
const maximumCategory = sql<string | null>`(select ${outlooks.label} from ${outlooks}
  where ${and(eq(outlooks.runId, sql`${outlookRuns}.run_id`), eq(outlooks.hazard, 'categorical'), eq(outlooks.kind, 'category'))}
  order by ${outlooks.rank} desc limit 1)`;
