/**
 * Knowledge of a value, an area or a place. An unknown one is never read as empty: `fold` takes a branch for
 * each state.
 */
export type Known<T> =
  { state: 'known'; value: T } | { state: 'empty' } | { state: 'unknown'; reason: UnknownReason };

export const unknownReasons = [
  'not_received',
  'predictability_too_low',
  'unreadable',
  'unplaced',
  'stale',
  'not_covered',
] as const;
/**
 * `not_received`: the provider publishes it separately, and it has not arrived. `predictability_too_low`: the
 * provider cannot say. `unreadable`: it arrived and cannot be read. `unplaced`: its outline is missing.
 * `not_covered`: the provider says nothing of the place.
 */
export type UnknownReason = (typeof unknownReasons)[number];

/** One part of a record that is unknown, as `meta.unknown` lists it. */
export interface UnknownPart {
  field: string;
  reason: UnknownReason;
}

export function known<T>(value: T): Known<T> {
  return { state: 'known', value };
}

export function unknown(reason: UnknownReason): Known<never> {
  return { state: 'unknown', reason };
}

export const empty: Known<never> = { state: 'empty' };

/** The result of the branch for the state. Pure. */
export function fold<T, R>(
  one: Known<T>,
  branches: { known: (value: T) => R; empty: () => R; unknown: (reason: UnknownReason) => R },
): R {
  switch (one.state) {
    case 'known':
      return branches.known(one.value);
    case 'empty':
      return branches.empty();
    case 'unknown':
      return branches.unknown(one.reason);
  }
}
