import type { Catalog, OutputRecord, PublishedBundle } from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/store.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, describeBundlePath } from '../../lib/paths.ts';
import type { Amount } from '../../lib/settings/units.ts';
import type { Layout, ReleaseId } from '../../releases/release.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import { type Key, keyOf } from '../../storage/key.ts';
import type { Work } from '../plan.ts';

export interface UnpublishRequest {
  owner: Owner;
  /** The bundle path, relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The layout to remove. Required if a migration left both. */
  layout?: Layout;
  /** The destination's `limits.max_removed`; null for no limit. */
  maxRemoved: Amount | null;
  /** Only report the removals. Removes nothing and takes no lease. */
  dryRun: boolean;
  /** The number of files kept or removed concurrently. */
  concurrency: number;
  /** Set if a run removes a bundle that no longer exists in its source. */
  orphan?: {
    runId: string | null;
    /**
     * Returns true if the bundle is still an orphan according to its catalog. Called again under the lease.
     */
    isStill: (catalog: Catalog) => boolean;
    /** Called with each decision before it is applied: once without the lease, and again under it. */
    onDecided?: ((decided: DecidedOrphan) => void) | undefined;
  };
}

export interface UnpublishReport {
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not record it. */
  bundle: PublishedBundle | null;
  /** The removed paths, sorted, including those of this owner's interrupted attempt. */
  outputs: string[];
  /** The total size of the recorded outputs. */
  bytes: number;
  /** The owners of remaining outputs; empty if the catalog is removed. */
  staying: Owner[];
  /** The removed releases; empty for the in-place layout. */
  releases: ReleaseId[];
}

/** Removes an owner's outputs from a bundle path. */
export interface Unpublication extends Work {
  action: 'unpublish';
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The records of the removed outputs, without outputs that an interrupted attempt only announced. */
  records: OutputRecord[];
  /** The owners of remaining outputs. The catalog is kept if there are any. */
  staying: Owner[];
}

/** The decision to remove an orphan, and the state it is based on. */
export interface DecidedOrphan {
  work: Unpublication;
  stored: StoredState;
}

/**
 * Plans the removal of all outputs of `owner` at a bundle path, including files that the same owner's
 * interrupted attempt wrote or had yet to remove. Other owners' outputs are kept. A catalog without outputs
 * has no owner, so it is removed. Throws `not_owned` if everything belongs to other owners.
 */
export function unpublication(catalog: Catalog, owner: Owner, destinationPath: string): Unpublication {
  const { outputs, pending } = catalog;
  const isOwn = (record: OutputRecord): boolean => sameOwner(record.owner, owner);
  const records = outputs.filter(isOwn);
  const removes = new Set<Key>(
    [...records, ...(pending?.outputs ?? []).filter(isOwn)].map(({ path }) => keyOf(path)),
  );
  const untouched = outputs.filter((record) => !isOwn(record));
  const isOwnAttempt = pending !== null && sameOwner(pending.owner, owner);
  if (isOwnAttempt && pending.action !== 'prune') for (const key of pending.removes) removes.add(key);
  const staying = ownersOf([...untouched, ...(pending?.outputs ?? []).filter((record) => !isOwn(record))]);
  const [other] = pending === null || isOwnAttempt ? staying : [...staying, pending.owner];
  if (removes.size === 0 && other !== undefined) throw notOwned(describeBundlePath(destinationPath), other);
  return {
    owner,
    destinationPath,
    action: 'unpublish',
    bundle: null,
    records,
    staying,
    untouched,
    writes: [],
    kept: [],
    removes: [...removes].sort(compareCodeUnits),
    clears: false,
  };
}

function ownersOf(records: readonly OutputRecord[]): Owner[] {
  const owners: Owner[] = [];
  for (const { owner } of records) if (!owners.some((known) => sameOwner(known, owner))) owners.push(owner);
  return owners;
}

export function notOwned(subject: string, { pipelineId, destinationId }: Owner): WaybillError {
  return new WaybillError(
    'not_owned',
    `${subject} was published by ${pipelineId}/${destinationId}; nothing was removed`,
    { hint: `to remove it, use --pipeline ${pipelineId} --destination ${destinationId}` },
  );
}

/** Returns the error for an orphan whose catalog has changed since it was found. */
export function noLongerOrphan(destinationPath: string): WaybillError {
  return new WaybillError(
    'destination_busy',
    `another publisher changed "${destinationPath}" since it was found to be an orphan; it was not removed`,
    { hint: 'run again to decide on the new state' },
  );
}
