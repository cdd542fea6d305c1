import { empty, fold, known, unknown, type Known, type UnknownPart, type UnknownReason } from '../known.ts';
import { hazards, hazardsOf, markers, type Hazard, type Marker } from '../outlook-hazards.ts';
import type { Geometry } from '../geometry.ts';

/** Knowledge of each hazard of an outlook: areas, none, or unknown with the reason. */

export interface OutlookAreaData {
  hazard: Hazard;
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
  hazard: Hazard;
  /** `none`: no area of the hazard contains the point. `unknown`: not known, for `reason`. */
  state: 'outlined' | 'none' | 'unknown';
  reason: UnknownReason | null;
  /** The highest category at the point; null: none is known, or the hazard has no categories. */
  category: string | null;
  categoryText: string | null;
  /** Percent; null: below the least that is outlined, or unknown. */
  probability: number | null;
  /** The highest intensity group. */
  intensity: string | null;
}

/** An area, or the row that stands for a whole hazard. */
type Row = Pick<OutlookAreaData, 'hazard' | 'kind' | 'label' | 'rank'>;

export type HazardStates<Area> = ReadonlyMap<
  Hazard,
  { state: Known<readonly Area[]>; areas: readonly Area[] }
>;

export function isMarker({ label, rank }: Pick<Row, 'label' | 'rank'>): boolean {
  return rank === 0 && (markers as readonly string[]).includes(label);
}

/**
 * The state of every hazard that an outlook of the day has, and of others that it outlines. A hazard of which
 * nothing arrived is unknown. `areas` are those that are known even if others are not. Pure.
 */
export function hazardStates<Area extends Row>(day: number, rows: readonly Area[]): HazardStates<Area> {
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

function stateOf<Area extends Row>(areas: readonly Area[], found: readonly Marker[]): Known<readonly Area[]> {
  if (found.includes('UNREADABLE')) return unknown('unreadable');
  if (found.includes('UNKNOWN')) return unknown('predictability_too_low');
  // Groups of intensity come separately, and say nothing of the hazard itself.
  if (areas.some(({ kind }) => kind !== 'intensity')) return known(areas);
  return found.includes('NONE') ? empty : unknown('not_received');
}

/** The highest category that could be read; whether there may be a higher one, `unknownParts` says. */
export function highestCategory<Area extends Row>(states: HazardStates<Area>): string | null {
  const categorical = states.get('categorical');
  return highestOf((categorical?.areas ?? []).filter(({ kind }) => kind === 'category'))?.label ?? null;
}

/** Hazards of the list that are unknown, as `meta.unknown` names them, and the highest category if it is. */
export function unknownParts<Area extends Row>(
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
 * The risk of a hazard at a point. `isThere` of an area is null if its outline is unknown. Outside of the
 * area that the provider covers (`isCovered`), the risk is unknown if no outline contains the point. Pure.
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
  const told = (at: 'outlined' | 'none' | 'unknown', reason: UnknownReason | null): OutlookRiskData => ({
    hazard,
    state: at,
    reason,
    category: category?.label ?? null,
    categoryText: category?.labelText ?? null,
    probability: probability?.probability ?? null,
    intensity: highest('intensity')?.label ?? null,
  });
  const none = isCovered ? told('none', null) : told('unknown', 'not_covered');
  return fold<unknown, OutlookRiskData>(state, {
    known: () => {
      if (areas.some(isHigher)) return told('unknown', 'unplaced');
      return (category ?? probability) === undefined ? none : told('outlined', null);
    },
    empty: () => none,
    unknown: (reason) => told('unknown', reason),
  });
}

function highestOf<Area extends { rank: number }>(areas: readonly Area[]): Area | undefined {
  return areas.reduce<Area | undefined>(
    (most, area) => (most === undefined || area.rank > most.rank ? area : most),
    undefined,
  );
}
