import { abortedIfStopped, type BundlePublication, type PublishRequest } from './publish-request.ts';
import { publishedBy } from '../catalog/catalog.ts';
import { readState, stateKey, type StoredState } from '../catalog/store.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { destinationBusy, type Lease } from '../catalog/lease/lease.ts';
import { whileHeld, decidingUnderLease, sweepAbandoned } from '../catalog/lease/with-lease.ts';
import { versionConflict } from '../storage/errors.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { allKept, failedResult, plannedResult } from './results/action-result.ts';
import { apply, type Applied, refuseObstructed } from './apply/apply.ts';
import { decideOnLatest, decider, dependsOnStrays, isSameState, type DecideOn } from './decide-on-state.ts';
import { isOvertaken } from './decision/refusals.ts';
import { planOutputs } from './outputs.ts';
import { changesDestination, type DecisionInput, type Plan, type PlannedOutput } from './plan.ts';
import {
  carryOutMove,
  isUnpublished,
  planMove,
  refuseObstructedMove,
  releasesToLeave,
  type LeftReleases,
} from './layouts/leave-releases.ts';
import { asLayoutChange, layoutWarning } from './layouts/adoption.ts';
import type { ActionResult } from './results/result.ts';

/** How often a publication starts over if other runs keep publishing newer bundles. */
const maxRounds = 10;

/**
 * Publishes one bundle to one destination, or reports the plan in a dry run. `root` is rooted at the
 * destination root. Never throws: a failure is in the result, as action `error`.
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
  let hasLeft = false;
  try {
    const storage = within(root, parseBundlePath(destinationPath));
    for (let round = 1; round <= maxRounds; round += 1) {
      const stored = await readState(storage);
      const left = isUnpublished(stored) ? await releasesToLeave(storage, destinationPath) : null;
      current = await upToDate(current, left?.stored ?? stored);
      planned = await outputsFor(current, left?.stored ?? stored, request);
      const input = inputFor(current, planned, request);
      if (left !== null) {
        const found = { storage, root, left, isFirst: round === 1 };
        const result = await leaveReleases(context, found, current, input, request);
        if (typeof result !== 'string') return result;
        hasLeft ||= result === 'left';
        continue;
      }
      // The decision was already reported before the release was moved in place.
      const asked = hasLeft ? { allowRemovals: request.allowRemovals ?? false } : request;
      const decideOn = decider({ storage, root }, destination, input, asked);
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
      const result = plannedResult(current.bundle.path, done.plan, planned, applied);
      return hasLeft ? asLeftReleases(result, current, request) : result;
    }
    throw destinationBusy(storage, null);
  } catch (error) {
    const { path } = current.bundle;
    context.log.error({ err: error, destination: destination.id, bundle: path }, 'publication failed');
    return failedResult(path, destinationPath, planned, abortedIfStopped(error, context.signal));
  }
}

interface Selected extends BundlePublication {
  /** The catalog generation for which the bundle was selected again; null if it was not. */
  confirmedAt: number | null;
}

/**
 * Whether the owner has published a newer bundle since this one was selected, so that this one would replace
 * it. false if the bundle was selected again since: the newer one was then removed from the source on
 * purpose.
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

interface Found {
  storage: Storage;
  root: Storage;
  left: LeftReleases;
  isFirst: boolean;
}

/**
 * Moves the current release in place, for a destination that no longer uses releases. Decides about the
 * publication first, as if the release were in place, and moves nothing if the decision refuses. Returns a
 * result if the publication ends here, `left` after the move, and `overtaken` if the caller must start over.
 */
async function leaveReleases(
  context: CoreContext,
  { storage, root, left, isFirst }: Found,
  selected: Selected,
  input: Omit<DecisionInput, 'observed'>,
  request: PublishRequest,
): Promise<ActionResult | 'left' | 'overtaken'> {
  const { bundle, destination } = selected;
  const { planned } = input;
  const move = await planMove({ storage, root }, left, selected, planned, request);
  const decideOn = decider({ storage: left.storage, root }, destination, input, request);
  const plan = await decideOnLatest(left.storage, left.stored, decideOn);
  if (isFirst) reportPlan(request, destination, plan);
  if (!changesDestination(plan.action) && plan.action !== 'skip_same')
    return plannedResult(bundle.path, plan, planned, null);
  if (!changesDestination(move.plan.action)) return plannedResult(bundle.path, move.plan, planned, null);
  if (request.dryRun) {
    await refuseObstructedMove(storage, move, plan);
    return asLeftReleases(plannedResult(bundle.path, plan, planned, null), selected, request);
  }
  return (await carryOutMove(context, storage, move, selected, request)) ? 'left' : 'overtaken';
}

/** Marks a result as a change of layout and warns the operator. */
function asLeftReleases(
  result: ActionResult,
  { destinationPath, warn }: BundlePublication,
  { dryRun }: PublishRequest,
): ActionResult {
  if (result.error !== null) return result;
  warn?.(layoutWarning('releases', destinationPath, dryRun));
  return asLayoutChange(result, 'releases');
}

async function outputsFor(
  { bundle, owner, destination, destinationPath }: BundlePublication,
  { state }: StoredState,
  { reading }: PublishRequest,
): Promise<PlannedOutput[]> {
  const recorded = state.kind === 'valid' ? state.catalog.outputs : [];
  return planOutputs(bundle, { owner, destination, destinationPath, recorded, reading });
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

/** Takes the lease, decides again and applies the plan. null if the bundle became outdated. */
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
    // On object stores, other publishers can write until this attempt has written its intent.
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
