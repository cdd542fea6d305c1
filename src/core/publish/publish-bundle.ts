import type { SourceBundle } from '../bundle/source-bundle.ts';
import { publishedBy } from '../catalog/published-bundles.ts';
import { readState, stateKey, type StoredState } from '../catalog/store.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { WaybillError } from '../errors.ts';
import type { Finding } from '../finding.ts';
import type { Owner } from '../identity.ts';
import { destinationBusy, type Lease } from '../lease/lease.ts';
import { whileHeld } from '../lease/while-held.ts';
import { decidingUnderLease, sweepAbandoned } from '../lease/with-lease.ts';
import { versionConflict } from '../storage/errors.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { allKept, failedResult, plannedResult } from './results/action-result.ts';
import { apply, type Applied } from './apply/apply.ts';
import { refuseObstructed } from './apply/preflight.ts';
import { decideOnLatest, decider, dependsOnStrays, isSameState, type DecideOn } from './decide-on-state.ts';
import { isOvertaken } from './decision/stale.ts';
import { planOutputs } from './outputs.ts';
import { changesDestination, type DecisionInput, type Plan, type PlannedOutput } from './plan.ts';
import type { PublishRequest } from './publish-request.ts';
import type { ActionResult } from './results/result.ts';

/** One bundle and the place that it is published to. */
export interface BundlePublication {
  bundle: SourceBundle;
  owner: Owner;
  destination: DestinationConfig;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * Selects the bundle again from the source as it is now, if the bundle was selected as the newest of a
   * source. Another run may have published a newer one since.
   */
  selectAgain?: () => Promise<SourceBundle>;
  /** Called with what the operator has to do about a publication that succeeds. */
  warn?: (warning: Finding) => void;
}

/** Another run may publish a newer bundle while this one is at work; then this starts over, so many times. */
const maxRounds = 10;

/**
 * Publishes one bundle to one destination, or, in a dry run, reports what it would do. `root` is rooted at
 * the destination root. Never throws: a failure is in the result, as action `error`.
 */
export async function publishBundle(
  context: CoreContext,
  root: Storage,
  publication: BundlePublication,
  request: PublishRequest,
): Promise<ActionResult> {
  const { destination, destinationPath } = publication;
  let current: Selected = { ...publication, confirmedAt: null };
  let planned: readonly PlannedOutput[] = [];
  try {
    const storage = within(root, parseBundlePath(destinationPath));
    for (let round = 1; round <= maxRounds; round += 1) {
      const stored = await readState(storage);
      current = await upToDate(current, stored);
      planned = await outputsFor(current, stored);
      const decideOn = decider({ storage, root }, destination, inputFor(current, planned, request), request);
      const plan = await decideOnLatest(storage, stored, decideOn);
      if (round === 1) reportPlan(request, destination, plan);
      if (plan.action === 'skip_same' && !request.dryRun)
        await sweepAbandoned(context, storage, stored.state);
      if (request.dryRun && changesDestination(plan.action))
        await refuseObstructed(storage, plan, { stateBytes: sizeOf(stored), isUnderLease: false });
      if (request.dryRun) return plannedResult(current.bundle.path, plan, planned, null);
      const done = changesDestination(plan.action)
        ? await decideAndApply(context, storage, current, request, decideOn)
        : { plan, applied: null };
      if (done === null) continue;
      const applied = done.plan.action === 'skip_same' ? allKept(planned) : done.applied;
      return plannedResult(current.bundle.path, done.plan, planned, applied);
    }
    throw destinationBusy(storage, null);
  } catch (error) {
    const { path } = current.bundle;
    context.log.error({ err: error, destination: destination.id, bundle: path }, 'publication failed');
    return failedResult(path, destinationPath, planned, abortedIfStopped(error, context.signal));
  }
}

interface Selected extends BundlePublication {
  /** The generation of the catalog that the bundle was selected again for; null if it was not. */
  confirmedAt: number | null;
}

/**
 * Whether the owner has published a newer bundle than this one, which was then selected before it: published
 * now, this one would take its place. Not so if the source was asked again since, because then the newer
 * bundle is gone from it, on purpose.
 */
function isOutdated({ bundle, owner, selectAgain, confirmedAt }: Selected, { state }: StoredState): boolean {
  if (selectAgain === undefined || state.kind !== 'valid') return false;
  const { identity: source, created } = bundle;
  return (
    state.catalog.generation !== confirmedAt && isOvertaken({ source, created }, publishedBy(state, owner))
  );
}

async function upToDate(selected: Selected, stored: StoredState): Promise<Selected> {
  const { selectAgain } = selected;
  if (selectAgain === undefined || stored.state.kind !== 'valid' || !isOutdated(selected, stored))
    return selected;
  return { ...selected, bundle: await selectAgain(), confirmedAt: stored.state.catalog.generation };
}

async function outputsFor(
  { bundle, owner, destination, destinationPath }: BundlePublication,
  { state }: StoredState,
): Promise<PlannedOutput[]> {
  const recorded = state.kind === 'valid' ? state.catalog.outputs : [];
  return planOutputs(bundle, { owner, destination, destinationPath, recorded });
}

function inputFor(
  { bundle, owner, destination, destinationPath }: BundlePublication,
  planned: readonly PlannedOutput[],
  { force }: PublishRequest,
): Omit<DecisionInput, 'observed'> {
  const { identity: source, created } = bundle;
  const { workflow } = destination;
  return { owner, bundle: { source, created }, workflow, force, destinationPath, planned };
}

interface Done {
  plan: Plan;
  applied: Applied | null;
}

/** Takes the lease, decides again under it, and applies the plan. Null if the bundle is outdated by then. */
async function decideAndApply(
  context: CoreContext,
  storage: Storage,
  selected: Selected,
  request: PublishRequest,
  decideOn: DecideOn,
): Promise<Done | null> {
  const { destination } = selected;
  const underLease = async (lease: Lease): Promise<Done | null> => {
    if (isOutdated(selected, lease.found)) return null;
    const plan = await decideOn(lease.found);
    lease.check();
    // On object stores nothing keeps others from writing before this attempt has written its intent.
    if (dependsOnStrays(plan) && !isSameState(await readState(storage), lease.found))
      throw versionConflict(storage, stateKey);
    if (!changesDestination(plan.action)) return { plan, applied: null };
    await refuseObstructed(storage, plan, { stateBytes: sizeOf(lease.found), isUnderLease: true });
    return { plan, applied: await applyPlan(context, storage, destination, request, plan, lease) };
  };
  return decidingUnderLease(context, storage, underLease, request.leaseTimes);
}

async function applyPlan(
  { clock, log, signal }: CoreContext,
  storage: Storage,
  { id: destinationId, fileConcurrency }: DestinationConfig,
  { onProgress }: PublishRequest,
  plan: Plan,
  lease: Lease,
): Promise<Applied> {
  return apply(plan, {
    storage: whileHeld(storage, lease),
    lease,
    clock,
    log,
    concurrency: fileConcurrency,
    ...(signal === undefined ? {} : { signal }),
    onBytes: (count) => onProgress?.({ type: 'bytes', destinationId, count }),
    onOutput: (path) => onProgress?.({ type: 'output', destinationId, path }),
  });
}

function sizeOf({ raw }: StoredState): number {
  return raw?.size ?? 0;
}

function reportPlan({ onProgress }: PublishRequest, destination: DestinationConfig, plan: Plan): void {
  onProgress?.({
    type: 'planned',
    destinationId: destination.id,
    destinationPath: plan.destinationPath,
    action: plan.action,
    outputs: plan.writes.length,
    bytes: plan.writes.reduce((sum, { size }) => sum + size, 0),
  });
}

/** Whatever a stopped publication failed with, it failed because it was stopped. */
export function abortedIfStopped(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted === true && error === signal.reason ? asAborted(error) : error;
}

/** The reason of a signal, as what a stopped publication fails with. */
export function asAborted(reason: unknown): WaybillError {
  if (reason instanceof WaybillError) return reason;
  return new WaybillError('aborted', 'the publication was stopped before it finished', {
    cause: reason,
    hint: 'run again to finish it',
  });
}
