import { bigint, doublePrecision, jsonb, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { wholeNumber } from '../../core/lib/parameters.ts';
import { cleanerOf } from '../database/cleaner.ts';
import { instantColumn } from '../database/columns.ts';
import { outlookShapeRequired } from '../database/database-errors.ts';
import {
  empty,
  fold,
  instant,
  type Known,
  known,
  unknown,
  type UnknownPart,
  type UnknownReason,
} from '../values.ts';
import {
  type Hazard,
  hazards,
  type OutlookAreaData,
  type OutlookRiskData,
  type OutlookWindowData,
} from './family-fields.ts';

/**
 * Returns the hazards in the Storm Prediction Center's outlook for this day. Each hazard has its own file.
 */
export function hazardsOf(day: number): readonly Hazard[] {
  if (day >= 4) return ['any_severe'];
  return day === 3 ? ['categorical', 'any_severe'] : ['categorical', 'tornado', 'wind', 'hail'];
}

/**
 * Labels of rows that are not an area but stand for a whole hazard. They have rank 0 and an empty geometry.
 * `NONE` means that there is no area. `UNKNOWN` means that the provider cannot say. `UNREADABLE` means that
 * part of the file could not be read.
 */
const markers = ['NONE', 'UNKNOWN', 'UNREADABLE'] as const;
export type Marker = (typeof markers)[number];

/** Shared code for convective outlooks and their discussions. Each issuance for a day is a run. */

export const outlookRuns = pgTable('outlook_runs', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  shape: text('shape').notNull(),
  day: smallint('day').notNull(),
  issuedAt: instantColumn('issued_at').notNull(),
  validFrom: instantColumn('valid_from').notNull(),
  validUntil: instantColumn('valid_until').notNull(),
  forecaster: text('forecaster'),
  receivedAt: instantColumn('received_at').notNull(),
});

export const outlooks = pgTable('outlooks', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
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

/** The time at which the run was stored is optional. */
export const cleanOutlookRun = cleanerOf(outlookRuns, { key: ['day', 'issuedAt'], nullable: ['receivedAt'] });

export const dayParameter = wholeNumber(1, 8, 1, { description: 'Day of the outlook; 1 is today.' });

type OutlookWindow = Pick<typeof outlookRuns.$inferSelect, 'day' | 'issuedAt' | 'validFrom' | 'validUntil'>;

export function windowData(run: OutlookWindow): OutlookWindowData {
  return {
    day: run.day,
    issuedAt: instant(run.issuedAt),
    validFrom: instant(run.validFrom),
    validUntil: instant(run.validUntil),
    timeZone: 'UTC',
  };
}

/** Runs `work`. If the tables do not have the structure that outlooks need, the error says so. */
export async function requireShape<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outlookShapeRequired(error);
  }
}

/**
 * Determines the state of each hazard in an outlook: either it has areas, or there is no risk, or it is
 * unknown for some reason.
 */

type HazardRow = Pick<OutlookAreaData, 'hazard' | 'kind' | 'label' | 'rank'>;

type HazardStates<Area> = ReadonlyMap<Hazard, { state: Known<readonly Area[]>; areas: readonly Area[] }>;

export function isMarker({ label, rank }: Pick<HazardRow, 'label' | 'rank'>): boolean {
  return rank === 0 && (markers as readonly string[]).includes(label);
}

/**
 * Returns the state of each hazard that the day's outlook should have, or that there are rows for. A hazard
 * without any rows is unknown. `areas` contains the areas that are known, even if the state is unknown
 * because of others.
 */
export function hazardStates<Area extends HazardRow>(day: number, rows: readonly Area[]): HazardStates<Area> {
  const expected = new Set<Hazard>([...hazardsOf(day), ...rows.map(({ hazard }) => hazard)]);
  return new Map(
    hazards
      .filter((hazard) => expected.has(hazard))
      .map((hazard) => {
        const own = rows.filter((row) => row.hazard === hazard);
        const areas = own.filter((row) => !isMarker(row));
        const found = own.filter(isMarker).map(({ label }) => label as Marker);
        return [hazard, { state: stateOf(areas, found), areas }] as const;
      }),
  );
}

function stateOf<Area extends HazardRow>(
  areas: readonly Area[],
  found: readonly Marker[],
): Known<readonly Area[]> {
  if (found.includes('UNREADABLE')) return unknown('unreadable');
  if (found.includes('UNKNOWN')) return unknown('predictability_too_low');
  // Intensities are published separately, so they do not show that the hazard's areas have arrived.
  if (areas.some(({ kind }) => kind !== 'intensity')) return known(areas);
  return found.includes('NONE') ? empty : unknown('not_received');
}

/**
 * Returns the highest category that could be read. If `unknownParts` contains the category, there could be a
 * higher one.
 */
export function highestCategory<Area extends HazardRow>(states: HazardStates<Area>): string | null {
  const categorical = states.get('categorical');
  return highestOf((categorical?.areas ?? []).filter(({ kind }) => kind === 'category'))?.label ?? null;
}

/**
 * Returns the requested hazards whose state is unknown, in the form of `meta.unknown`. Also includes the
 * highest category if it is unknown.
 */
export function unknownParts<Area extends HazardRow>(
  states: HazardStates<Area>,
  asked: readonly Hazard[],
): UnknownPart[] {
  const partOf = (field: string, one: Known<unknown>): UnknownPart[] =>
    fold<unknown, UnknownPart[]>(one, {
      known: () => [],
      empty: () => [],
      unknown: (reason) => [{ field, reason }],
    });
  const categorical = states.get('categorical');
  return [
    ...(categorical === undefined ? [] : partOf('maximumCategory', categorical.state)),
    ...[...states]
      .filter(([hazard]) => asked.length === 0 || asked.includes(hazard))
      .flatMap(([hazard, { state }]) => partOf(hazard, state)),
  ];
}

type RiskArea = OutlookAreaData & { isThere: boolean | null };

/**
 * Returns the risk of a hazard at a point. For areas whose outline is unknown, `isThere` is null. If the
 * point is not in any outline, and the provider does not cover its location either (`isCovered`), the risk is
 * unknown.
 */
export function riskAt(
  hazard: Hazard,
  { state, areas }: { state: Known<unknown>; areas: readonly RiskArea[] },
  isCovered: boolean,
): OutlookRiskData {
  const there = areas.filter(({ isThere }) => isThere === true);
  const highest = (kind: OutlookAreaData['kind']): RiskArea | undefined =>
    highestOf(there.filter((area) => area.kind === kind));
  const category = highest('category');
  const probability = highest('probability');
  const isHigher = ({ kind, rank, isThere }: RiskArea): boolean =>
    isThere === null && rank > ((kind === 'category' ? category : highest(kind))?.rank ?? 0);
  const riskData = (at: 'outlined' | 'none' | 'unknown', reason: UnknownReason | null): OutlookRiskData => ({
    hazard,
    state: at,
    reason,
    category: category?.label ?? null,
    categoryText: category?.labelText ?? null,
    probability: probability?.probability ?? null,
    intensity: highest('intensity')?.label ?? null,
  });
  const none = isCovered ? riskData('none', null) : riskData('unknown', 'not_covered');
  return fold<unknown, OutlookRiskData>(state, {
    known: () => {
      if (areas.some(isHigher)) return riskData('unknown', 'unplaced');
      return (category ?? probability) === undefined ? none : riskData('outlined', null);
    },
    empty: () => none,
    unknown: (reason) => riskData('unknown', reason),
  });
}

function highestOf<Area extends { rank: number }>(areas: readonly Area[]): Area | undefined {
  return areas.reduce<Area | undefined>(
    (most, area) => (most === undefined || area.rank > most.rank ? area : most),
    undefined,
  );
}
