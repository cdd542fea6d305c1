import type { CatalogState, LegacyRecord, OutputRecord, Pending } from '../../catalog/catalog.ts';
import { sameOwner, type Owner } from '../../storage/identity.ts';
import { compareCodeUnits } from '../../lib/paths.ts';
import { listedKey, type Key } from '../../storage/key.ts';
import type { DecisionInput } from '../plan.ts';

/*
 * The records of a state in the form that decisions use.
 */

export interface Known {
  records: OutputRecord[];
  /** The owner of each recorded or announced path; null if unknown. */
  holders: Map<string, Owner | null>;
  /** Files that an interrupted attempt of the same owner had still to remove. */
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
 * The files to remove, sorted: outputs of this owner that a replacement does not plan, and those that an
 * interrupted attempt had still to remove. Pure.
 */
export function omittedPaths({ planned, owner, workflow, observed }: DecisionInput, known: Known): Key[] {
  const kept = new Set<string>(planned.map(({ path }) => path));
  const omitted = new Set<string>(known.unfinished.filter((path) => !kept.has(path)));
  if (workflow === 'replacement') {
    const announced = observed.state.kind === 'valid' ? (observed.state.catalog.pending?.outputs ?? []) : [];
    for (const record of [...known.records, ...announced])
      if (sameOwner(record.owner, owner) && !kept.has(record.path)) omitted.add(record.path);
  }
  return [...omitted].sort(compareCodeUnits).map(listedKey);
}

/**
 * The removals of an interrupted replacement, which the next attempt of the same owner finishes. A prune
 * selects its files again.
 */
function unfinishedRemoves({ action, removes }: Pending): Key[] {
  return action === 'prune' ? [] : removes;
}

/**
 * Converts a legacy record. Only version 3 has enough fields. The missing ones differ from any plan, so the
 * output will be written again.
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
