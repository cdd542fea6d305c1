import {
  bundlesOf,
  type Catalog,
  isRootIndexOutput,
  nextGeneration,
  type OutputRecord,
} from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/catalog-store.ts';
import { createIntent, type Lease } from '../catalog/lease/lease.ts';
import { guardWithLease, sweepAbandoned, withLease } from '../catalog/lease/with-lease.ts';
import { displayPath, managedPaths } from '../catalog/managed-paths.ts';
import { settleInterrupted, sweepUnfinished } from '../catalog/settle-interrupted.ts';
import type { PrunePolicy } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { type ErrorRecord, errorRecord, hasCode, WaybillError } from '../lib/errors.ts';
import type { Amount } from '../lib/settings/sizes-and-durations.ts';
import { refuseRemovals } from '../publish/decision/refusals.ts';
import { pruneOccurrence } from '../publish/results/occurrences.ts';
import { releasePathOf } from '../releases/release.ts';
import type { Owner } from '../storage/identity.ts';
import { keyOf, parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import {
  type PruneCandidate,
  type PruneDecision,
  refuseClockAhead,
  selectPrunable,
} from './select-prunable.ts';

interface PruneOptions {
  owner: Owner;
  policy: PrunePolicy;
  /** The destination's `limits.max_removed`; null for no limit. */
  maxRemoved: Amount | null;
  /** Only report what would be deleted. Nothing is deleted, and no lease is taken. */
  dryRun: boolean;
}

export interface PruneReport {
  /** A decision for each output of the owner, newest first. */
  decisions: PruneDecision[];
  /** The reason for not deleting anything: `too_many_removals` or `clock_ahead`; null otherwise. */
  refused: ErrorRecord | null;
  /** Files that are confirmed to be deleted. `path` is relative to `destinationPath`. */
  removed: { destinationPath: string; path: string }[];
  /** Bundle paths that could not be read, or where deleting a file failed. */
  errors: { destinationPath: string; error: ErrorRecord }[];
}

/**
 * Deletes one owner's old outputs, according to the destination's policy. A file is dropped from the state
 * only once it is confirmed to be deleted, so even after a failure, the state lists exactly the files that
 * are still there. Throws `prune_disabled`, or the storage's error if the destination cannot be listed.
 * Failures at a single bundle path are in `errors`.
 */
export async function prune(
  context: CoreContext,
  root: Storage,
  options: PruneOptions,
): Promise<PruneReport> {
  if (!options.policy.enabled)
    throw new WaybillError('prune_disabled', 'pruning is not enabled for this destination', {
      hint: 'set retention.prune.enabled: true, and keep_latest or older_than',
    });
  const report: PruneReport = { decisions: [], refused: null, removed: [], errors: [] };
  const candidates: PruneCandidate[] = [];
  const readable: string[] = [];
  for (const path of await managedPaths(root)) {
    // Releases are never pruned. Retention removes each one as a whole.
    if (releasePathOf(path) !== null) continue;
    const destinationPath = displayPath(path);
    try {
      const { outputs } = requireCatalog((await readState(subdirectory(root, path))).state);
      // Do not prune the root index, because each publication writes it again anyway.
      for (const record of outputs)
        if (!isRootIndexOutput(record)) candidates.push({ destinationPath, record });
      readable.push(destinationPath);
    } catch (error) {
      report.errors.push({ destinationPath, error: errorRecord(error) });
    }
  }
  report.decisions = selectPrunable(candidates, options.owner, options.policy, context.clock.now());
  report.refused = await refusalOf(context, root, report.decisions, options);
  if (options.dryRun || report.refused !== null) return report;

  const byPath = groupByPath(report.decisions);
  for (const destinationPath of readable) {
    const confirmed = (path: string): void => void report.removed.push({ destinationPath, path });
    try {
      await prunePath(
        context,
        subdirectory(root, parseBundlePath(destinationPath)),
        options.owner,
        byPath.get(destinationPath) ?? [],
        confirmed,
      );
    } catch (error) {
      report.errors.push({ destinationPath, error: errorRecord(error) });
    }
  }
  const occurrence = pruneOccurrence(options.owner, report.removed, report.errors.length);
  if (occurrence !== null) context.notify?.(occurrence);
  return report;
}

/**
 * Returns the reason why nothing may be deleted, or null if there is none. If our clock is ahead, every
 * output looks old. Comparing it with the storage's clock usually detects this. If not, `limits.max_removed`
 * limits the damage.
 */
async function refusalOf(
  { clock }: CoreContext,
  root: Storage,
  decisions: readonly PruneDecision[],
  { policy, maxRemoved, dryRun }: PruneOptions,
): Promise<ErrorRecord | null> {
  const removed = decisions.filter((decision) => decision.prune).length;
  if (removed === 0) return null;
  try {
    if (policy.olderThanMs !== null) await refuseClockAhead(root, clock, { mayWrite: !dryRun });
    refuseRemovals(maxRemoved, { removed, total: decisions.length, where: 'the destination' });
    return null;
  } catch (error) {
    return errorRecord(error);
  }
}

function groupByPath(decisions: readonly PruneDecision[]): Map<string, OutputRecord[]> {
  const groups = new Map<string, OutputRecord[]>();
  for (const { prune: isPruned, destinationPath, record } of decisions) {
    if (!isPruned) continue;
    const group = groups.get(destinationPath) ?? [];
    group.push(record);
    groups.set(destinationPath, group);
  }
  return groups;
}

async function prunePath(
  context: CoreContext,
  storage: Storage,
  owner: Owner,
  planned: readonly OutputRecord[],
  confirmed: (path: string) => void,
): Promise<void> {
  const { clock, signal } = context;
  const { state } = await readState(storage);
  if (planned.length === 0 && state.kind === 'valid' && state.catalog.pending === null)
    return sweepAbandoned(context, storage, state);
  await withLease(context, storage, async (lease) => {
    const found = requireCatalog(lease.found.state);
    const { outputs, vanished } = await settleInterrupted(storage, found);
    const catalog: Catalog = { ...found, outputs, pending: null };
    // An output that was published again after the decision has to stay.
    const decided = new Map<string, OutputRecord>(planned.map((record) => [record.path, record]));
    const removed = catalog.outputs.filter(
      ({ path, updatedAt }) => decided.get(path)?.updatedAt === updatedAt,
    );
    if (removed.length === 0 && found.pending === null) return;
    const pending = createIntent(lease, {
      owner,
      action: 'prune',
      startedAt: clock.now().toISOString(),
      outputs: [],
      removes: removed.map(({ path }) => keyOf(path)),
    });
    await lease.writeState({ ...catalog, pending });
    await sweepUnfinished(guardWithLease(storage, lease), vanished);
    const { removedPaths, failure } = await removeAll(storage, lease, removed, signal);
    for (const path of removedPaths) confirmed(path);
    // Without the lease, the state belongs to another attempt. The next one will sort out the intent.
    if (failure !== null && hasCode(failure.error, 'lease_lost')) throw failure.error;
    const remaining = catalog.outputs.filter(({ path }) => !removedPaths.has(path));
    await lease.writeState({
      generation: nextGeneration(catalog.generation),
      updatedAt: clock.now().toISOString(),
      bundles: bundlesOf(catalog.bundles, remaining),
      outputs: remaining,
      pending: failure?.isUnknown === true ? { ...pending, holder: null } : null,
    });
    if (failure !== null) throw failure.error;
  });
}

interface Removal {
  removedPaths: Set<string>;
  /** `isUnknown` means that there is no telling whether the last file still exists. */
  failure: { error: unknown; isUnknown: boolean } | null;
}

/**
 * Removes files one by one, until one of them fails. Then checks whether that file is still there: it could
 * be that only the response was lost.
 */
async function removeAll(
  storage: Storage,
  lease: Lease,
  removed: readonly OutputRecord[],
  signal: AbortSignal | undefined,
): Promise<Removal> {
  const removedPaths = new Set<string>();
  for (const { path } of removed) {
    try {
      signal?.throwIfAborted();
      lease.check();
      await storage.remove(keyOf(path));
    } catch (error) {
      const present = await storage.stat(keyOf(path)).catch(() => null);
      if (present === undefined) removedPaths.add(path);
      return { removedPaths, failure: { error, isUnknown: present === null } };
    }
    removedPaths.add(path);
  }
  return { removedPaths, failure: null };
}
