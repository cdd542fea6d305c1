import type { CatalogState, LegacyRecord, OutputRecord, Pending } from '../../catalog/catalog.ts';
import { sameOwner, type Owner } from '../../identity.ts';
import { compareCodeUnits } from '../../paths.ts';
import { listedKey, type Key } from '../../storage/key.ts';
import type { DecisionInput } from '../plan.ts';

/** What a state records, and what an interrupted attempt of the same owner left to be removed. */
export interface Known {
  records: OutputRecord[];
  /** The owner of each path, those included that interrupted attempts announced; null if it is unknown. */
  holders: Map<string, Owner | null>;
  unfinished: Key[];
}

export type ManagedState = Extract<CatalogState, { kind: 'valid' | 'legacy' }>;

export const nothingKnown: Known = { records: [], holders: new Map(), unfinished: [] };

/** Pure. */
export function knownRecords(state: ManagedState, input: DecisionInput): Known {
  if (state.kind === 'legacy') {
    const records = state.records.flatMap((record) => carriedOver(record, input));
    return { records, holders: new Map(records.map(({ path, owner }) => [path, owner])), unfinished: [] };
  }
  const { outputs, pending } = state.catalog;
  const holders = new Map<string, Owner | null>();
  const own = pending !== null && sameOwner(pending.owner, input.owner);
  for (const path of pending?.removes ?? []) holders.set(path, own ? input.owner : null);
  for (const record of [...(pending?.outputs ?? []), ...outputs]) holders.set(record.path, record.owner);
  return { records: outputs, holders, unfinished: own ? unfinishedRemoves(pending) : [] };
}

/**
 * The files to remove: outputs of this owner that a replacement does not plan, and those that an interrupted
 * attempt was still to remove. Sorted. Pure.
 */
export function omittedPaths({ planned, owner, workflow, observed }: DecisionInput, known: Known): Key[] {
  const kept = new Set<string>(planned.map(({ path }) => path));
  const goes = new Set<string>(known.unfinished.filter((path) => !kept.has(path)));
  if (workflow === 'replacement') {
    const announced = observed.state.kind === 'valid' ? (observed.state.catalog.pending?.outputs ?? []) : [];
    for (const record of [...known.records, ...announced])
      if (sameOwner(record.owner, owner) && !kept.has(record.path)) goes.add(record.path);
  }
  return [...goes].sort(compareCodeUnits).map(listedKey);
}

/**
 * An interrupted replacement, forced or not, had decided what goes; the next attempt of the same owner
 * finishes that. A prune decides anew.
 */
function unfinishedRemoves({ action, removes }: Pending): Key[] {
  return action === 'prune' ? [] : removes;
}

/**
 * Only v3 recorded enough to make a record from. What it lacks differs from any plan, so the output is
 * written anew.
 */
function carriedOver({ path, v3 }: LegacyRecord, { owner, destinationPath }: DecisionInput): OutputRecord[] {
  if (v3 === null || !sameOwner(v3.owner, owner)) return [];
  return [
    {
      path,
      owner,
      source: { backend: 'local', id: 'legacy', path: destinationPath },
      kind: 'file',
      digest: v3.digest,
      size: v3.size,
      updatedAt: v3.updatedAt,
      generated: { contentType: null, cacheControl: null, generator: null },
      url: null,
    },
  ];
}
