import type { Catalog, OutputRecord, PublishedBundle } from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/catalog-store.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, describeBundlePath } from '../../lib/paths.ts';
import type { Amount } from '../../lib/settings/sizes-and-durations.ts';
import type { Layout, ReleaseId } from '../../releases/release.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import { type Key, keyOf } from '../../storage/key.ts';
import type { Work } from '../plan.ts';

export interface UnpublishRequest {
  owner: Owner;
  /** The bundle path, relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The layout to remove. Must be set if a migration left files in both. */
  layout?: Layout;
  /** The destination's `limits.max_removed`; null for no limit. */
  maxRemoved: Amount | null;
  /** Only report what would be removed. Nothing is removed, and no lease is taken. */
  dryRun: boolean;
  /** How many files to keep or remove at a time. */
  concurrency: number;
  /** Set if a run is removing a bundle that is gone from its source. */
  orphan?: {
    runId: string | null;
    /**
     * Reports whether the bundle is still an orphan, going by its catalog. Called a second time under the
     * lease.
     */
    isStill: (catalog: Catalog) => boolean;
    /** Called with each decision before it is carried out: once without the lease, and once with it. */
    onDecided?: ((decided: DecidedOrphan) => void) | undefined;
  };
}

export interface UnpublishReport {
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not say. */
  bundle: PublishedBundle | null;
  /** The paths that were removed, sorted. Includes paths of this owner's interrupted attempt. */
  outputs: string[];
  /** The total size of the recorded outputs, in bytes. */
  bytes: number;
  /** The owners that still have outputs there. Empty if the catalog was removed. */
  staying: Owner[];
  /** The releases that were removed. Empty for the in-place layout. */
  releases: ReleaseId[];
}

/** The work of removing an owner's outputs from a bundle path. */
export interface Unpublication extends Work {
  action: 'unpublish';
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * The records of the removed outputs. Outputs that were only announced by an interrupted attempt have none.
   */
  records: OutputRecord[];
  /** The owners that still have outputs there. If there are any, the catalog stays. */
  staying: Owner[];
}

/** A decision to remove an orphan, with the state that it is based on. */
export interface DecidedOrphan {
  work: Unpublication;
  stored: StoredState;
}

/**
 * Plans the removal of everything that `owner` has at a bundle path. This includes files that the owner's
 * interrupted attempt wrote, or was still going to remove. Outputs of other owners stay. If there are no
 * outputs at all, the catalog belongs to no one and is removed. Throws `not_owned` if other owners own
 * everything.
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
  if (removes.size === 0 && other !== undefined)
    throw notOwnedError(describeBundlePath(destinationPath), other);
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

export function notOwnedError(subject: string, { pipelineId, destinationId }: Owner): WaybillError {
  return new WaybillError(
    'not_owned',
    `${subject} was published by ${pipelineId}/${destinationId}; nothing was removed`,
    { hint: `to remove it, use --pipeline ${pipelineId} --destination ${destinationId}` },
  );
}

/** Returns the error for a bundle that may no longer be an orphan, because its catalog has changed. */
export function notOrphanError(destinationPath: string): WaybillError {
  return new WaybillError(
    'destination_busy',
    `another publisher changed "${destinationPath}" since it was found to be an orphan; it was not removed`,
    { hint: 'run again to decide on the new catalog' },
  );
}
