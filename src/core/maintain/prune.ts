import type { Catalog, OutputRecord, Pending } from '../catalog/catalog.ts';
import type { Owner } from '../identity.ts';
import type { Lease } from '../lease/lease.ts';
import { absentAmong, observeBytes, sweepUnfinished } from '../catalog/observe-bytes.ts';
import { pathsToSettle, settle } from '../catalog/settle.ts';
import { readState } from '../catalog/store.ts';
import { sweepAbandoned, withLease } from '../lease/with-lease.ts';
import type { PrunePolicy } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, hasCode, WaybillError, type ErrorRecord } from '../errors.ts';
import { pruneOccurrence } from '../publish/occurrences.ts';
import { keyOf, parseBundlePath, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { managedPaths, reportedPath } from './managed-paths.ts';
import { validCatalog } from './reconcile.ts';
import { selectPrunable, type PruneCandidate, type PruneDecision } from './select-prunable.ts';

export interface PruneOptions {
  owner: Owner;
  policy: PrunePolicy;
  /** Decide and tell, delete nothing. */
  dryRun: boolean;
}

export interface PruneReport {
  decisions: PruneDecision[];
  /** Confirmed deletions, as `destinationPath` and `path`. */
  removed: { destinationPath: string; path: string }[];
  errors: { destinationPath: string; error: ErrorRecord }[];
}

/**
 * Removes old managed outputs of one owner by the destination's policy. Deletes only what the plan names, and
 * records each deletion only once it is confirmed: after a failure the state tells exactly what is left.
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
  const report: PruneReport = { decisions: [], removed: [], errors: [] };
  const candidates: PruneCandidate[] = [];
  const readable: string[] = [];
  for (const path of await managedPaths(root)) {
    const destinationPath = reportedPath(path);
    try {
      const { outputs } = validCatalog((await readState(within(root, path))).state);
      for (const record of outputs) candidates.push({ destinationPath, record });
      readable.push(destinationPath);
    } catch (error) {
      report.errors.push({ destinationPath, error: errorRecord(error) });
    }
  }
  report.decisions = selectPrunable(candidates, options.owner, options.policy, context.clock.now());
  if (options.dryRun) return report;

  const goes = groupByPath(report.decisions);
  for (const destinationPath of readable) {
    const confirmed = (path: string): void => void report.removed.push({ destinationPath, path });
    try {
      await prunePath(
        context,
        within(root, parseBundlePath(destinationPath)),
        options.owner,
        goes.get(destinationPath) ?? [],
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

function groupByPath(decisions: readonly PruneDecision[]): Map<string, OutputRecord[]> {
  const groups = new Map<string, OutputRecord[]>();
  for (const { prune: goes, destinationPath, record } of decisions) {
    if (!goes) continue;
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
    return sweepAbandoned(context, storage);
  await withLease(context, storage, async (lease) => {
    const { catalog, vanished } = await settledCatalog(storage, lease);
    // What was published again since the decision is no longer what the decision was about.
    const decided = new Map<string, OutputRecord>(planned.map((record) => [record.path, record]));
    const goes = catalog.outputs.filter(({ path, updatedAt }) => decided.get(path)?.updatedAt === updatedAt);
    const wasInterrupted = lease.found.state.kind === 'valid' && lease.found.state.catalog.pending !== null;
    if (goes.length === 0 && !wasInterrupted) return;
    const announced = intent(catalog, lease, owner, goes, clock.now());
    await lease.writeState(announced);
    await sweepUnfinished(storage, vanished);
    const { gone, failure } = await removeAll(storage, lease, goes, signal);
    for (const path of gone) confirmed(path);
    // Without the lease the state is another's to write; the intent stands, and whoever comes next settles
    // it.
    if (failure !== null && hasCode(failure.error, 'lease_lost')) throw failure.error;
    await lease.writeState({
      generation: catalog.generation + 1,
      updatedAt: clock.now().toISOString(),
      outputs: catalog.outputs.filter(({ path }) => !gone.has(path)),
      pending: failure?.isUnknown === true ? { ...announced.pending, holder: null } : null,
    });
    if (failure !== null) throw failure.error;
  });
}

interface Removal {
  gone: Set<string>;
  /** `isUnknown`: nobody can tell whether the last file is still there. */
  failure: { error: unknown; isUnknown: boolean } | null;
}

/**
 * Removes one after another and stops at the first failure, which is looked into: a lost answer may have been
 * a deletion.
 */
async function removeAll(
  storage: Storage,
  lease: Lease,
  goes: readonly OutputRecord[],
  signal: AbortSignal | undefined,
): Promise<Removal> {
  const gone = new Set<string>();
  for (const { path } of goes) {
    try {
      signal?.throwIfAborted();
      lease.check();
      await storage.remove(keyOf(path));
    } catch (error) {
      const present = await storage.stat(keyOf(path)).catch(() => null);
      if (present === undefined) gone.add(path);
      return { gone, failure: { error, isUnknown: present === null } };
    }
    gone.add(path);
  }
  return { gone, failure: null };
}

/** The catalog as it truly is, also where an earlier attempt was interrupted. */
async function settledCatalog(
  storage: Storage,
  lease: Lease,
): Promise<{ catalog: Catalog; vanished: Key[] }> {
  const catalog = validCatalog(lease.found.state);
  if (catalog.pending === null) return { catalog, vanished: [] };
  const observed = await observeBytes(storage, pathsToSettle(catalog, new Set()));
  const outputs = settle(catalog, observed);
  return { catalog: { ...catalog, outputs, pending: null }, vanished: absentAmong(observed) };
}

function intent(
  catalog: Catalog,
  lease: Lease,
  owner: Owner,
  goes: readonly OutputRecord[],
  now: Date,
): Catalog & { pending: Pending } {
  return {
    ...catalog,
    pending: {
      attemptId: lease.attemptId,
      owner,
      action: 'prune',
      startedAt: now.toISOString(),
      holder: lease.holder,
      renewals: 0,
      outputs: [],
      removes: goes.map(({ path }) => keyOf(path)),
    },
  };
}
