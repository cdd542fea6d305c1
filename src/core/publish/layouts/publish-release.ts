import { abortedIfStopped, type PublishRequest } from '../publish-request.ts';
import { pathWithin } from '../../lib/paths.ts';
import { publishedBy } from '../../catalog/catalog.ts';
import type { CoreContext } from '../../context.ts';
import { destinationBusy } from '../../catalog/lease/lease.ts';
import { sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import { releaseKey, type ReleaseId } from '../../releases/release.ts';
import { isRetirementDue } from '../../releases/retire.ts';
import { requireReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';
import { refuseObstructed } from '../apply/apply.ts';
import { isOvertaken } from '../decision/refusals.ts';
import { planOutputs } from '../outputs.ts';
import type { DecisionInput, PlannedOutput } from '../plan.ts';
import { allKept, failedResult } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import { adoptInPlace, carryOutAdoption } from './adopt-in-place.ts';
import { fillRelease, unlikeCurrent, type Filling } from './fill-release.ts';
import { asLayoutChange, layoutWarning } from './adoption.ts';
import { asChannelSet, switchPointer } from './switch-pointer.ts';
import {
  planRelease,
  type PlannedRelease,
  type ReleasePlan,
  readSnapshot,
  type Snapshot,
} from './plan-release.ts';
import { releaseResult, releasedBy } from './release-result.ts';
import type { ReleasePublication } from './release-publication.ts';
import { retireAfterwards, retireOld, type Tidying } from './tidy-releases.ts';

/** How often a publication starts over if other processes keep changing the bundle path. */
const maxRounds = 10;

/**
 * Publishes one bundle as a release. Once it is complete, one step makes it current or points the channel at
 * it. A dry run reports which release that would be. `root` is rooted at the destination root.
 *
 * After a kill at any moment, readers have the previous release or this one, and the next run finishes the
 * work. Files published in place become a release first, for rollbacks. Never throws: a failure is in the
 * result, as action `error`.
 */
export async function publishRelease(
  context: CoreContext,
  root: Storage,
  publication: ReleasePublication,
  request: PublishRequest,
): Promise<ActionResult> {
  const { destination, destinationPath, channel } = publication;
  let selected: Selected = { ...publication, confirmedFor: null };
  let hasAdopted = false;
  let planned: readonly PlannedOutput[] = [];
  try {
    const storage = within(root, parseBundlePath(destinationPath));
    for (let round = 1; round <= maxRounds; round += 1) {
      const found = await readSnapshot(storage, destinationPath, channel?.name ?? null);
      const adopted = await adoptInPlace(context, storage, found, selected, request);
      const snapshot = adopted?.snapshot ?? found;
      selected = await upToDate(selected, snapshot);
      planned = await outputsOf(selected, snapshot, request);
      const input = inputFor(selected, planned, request);
      // The decision was already reported before the adoption.
      const asked = hasAdopted ? { allowRemovals: request.allowRemovals ?? false } : request;
      const decided = await planRelease(storage, snapshot, destination, input, asked);
      if (round === 1) reportPlan(request, publication, decided);
      if (adopted !== null) {
        if (!request.dryRun) {
          hasAdopted ||= await carryOutAdoption(context, storage, adopted, request);
          continue;
        }
        await refuseUnmakeable(storage, adopted.filling.release);
      }
      const result = await carryOut(context, storage, { selected, planned, snapshot, decided }, request);
      if (result === null) continue;
      const reported = { ...result, channel: channel?.name ?? null };
      return hasAdopted || adopted !== null ? asAdopted(reported, selected, request) : reported;
    }
    throw destinationBusy(storage, null);
  } catch (error) {
    const { path } = selected.bundle;
    context.log.error({ err: error, destination: destination.id, bundle: path }, 'publication failed');
    const failed = failedResult(path, destinationPath, planned, abortedIfStopped(error, context.signal));
    return { ...failed, channel: channel?.name ?? null };
  }
}

/** Marks a result as a change of layout and warns the operator. */
function asAdopted(
  result: ActionResult,
  { destinationPath, warn }: Selected,
  { dryRun }: PublishRequest,
): ActionResult {
  if (result.error !== null) return result;
  warn?.(layoutWarning('in_place', destinationPath, dryRun));
  return asLayoutChange(result, 'in_place');
}

interface Selected extends ReleasePublication {
  /** The release that was shown when the bundle was selected again; null if it was not. */
  confirmedFor: ReleaseId | null;
}

/** Selects the bundle again if another run published a newer one in the meantime. */
async function upToDate(selected: Selected, { shown, stored }: Snapshot): Promise<Selected> {
  const { selectAgain, bundle, owner, confirmedFor } = selected;
  if (selectAgain === undefined || shown === confirmedFor) return selected;
  const { identity: source, created } = bundle;
  if (!isOvertaken({ source, created }, publishedBy(stored.state, owner))) return selected;
  return { ...selected, bundle: await selectAgain(), confirmedFor: shown };
}

async function outputsOf(
  { bundle, owner, destination, destinationPath, rule }: Selected,
  { stored: { state } }: Snapshot,
  { reading }: PublishRequest,
): Promise<PlannedOutput[]> {
  const recorded = state.kind === 'valid' ? state.catalog.outputs : [];
  const readAt = rule.currentInUrl ? pathWithin(destinationPath, 'current') : destinationPath;
  return planOutputs(bundle, { owner, destination, destinationPath: readAt, recorded, reading });
}

function inputFor(
  { bundle, owner, destination: { workflow }, destinationPath }: Selected,
  planned: readonly PlannedOutput[],
  { force }: PublishRequest,
): Omit<DecisionInput, 'observed'> {
  const { identity: source, created } = bundle;
  return { owner, bundle: { source, created }, workflow, force, destinationPath, planned };
}

interface Decided {
  selected: Selected;
  planned: readonly PlannedOutput[];
  snapshot: Snapshot;
  decided: ReleasePlan;
}

/** null if another process was first, so that the publication must be decided again. */
async function carryOut(
  context: CoreContext,
  storage: Storage,
  { selected, planned, snapshot, decided }: Decided,
  request: PublishRequest,
): Promise<ActionResult | null> {
  const { plan, release, heldBack } = decided;
  const { pointer, shown } = snapshot;
  const { path } = selected.bundle;
  const { channel } = selected;
  const tidying = tidyingOf(selected, request);
  const switchTo = async (id: ReleaseId): ReturnType<typeof switchPointer> =>
    switchPointer(context, storage, selected, snapshot, id, request.leaseTimes);
  if (release === null) {
    const isSame = plan.action === 'skip_same';
    if (isSame && !request.dryRun) await sweep(context, storage, snapshot, tidying);
    const applied = isSame && heldBack === null && !request.dryRun ? allKept(planned) : null;
    const same = releaseResult(path, plan, planned, {
      applied,
      release: heldBack ?? (isSame ? shown : null),
    });
    if (!isSame || channel === null || shown === null) return same;
    // Each publication renews the channel's expiry.
    if (!request.dryRun && (await switchTo(shown)) !== 'switched') return null;
    return pointer === null ? asChannelSet(same, channel.name, shown) : same;
  }
  if (request.dryRun) {
    await refuseUnmakeable(storage, release);
    return releaseResult(path, plan, planned, { applied: null, release: release.id });
  }
  await requireReleases(storage);
  const filled = await fillRelease(context, storage, fillingOf(selected, decided, release, shown), request);
  const outcome = await switchTo(release.id);
  if (outcome === 'being_removed') await retireOld(context, storage, tidying);
  if (outcome !== 'switched') return null;
  await retireAfterwards(context, storage, tidying);
  return releaseResult(path, plan, planned, {
    applied: releasedBy(filled, planned, plan),
    release: release.id,
  });
}

function fillingOf(
  { destination, destinationPath }: Selected,
  { plan }: ReleasePlan,
  release: PlannedRelease,
  shown: ReleaseId | null,
): Filling {
  const into = pathWithin(destinationPath, releaseKey(release.id));
  const base = shown === null ? null : releaseKey(shown);
  return { release, plan, base, destinationPath: into, destination };
}

async function refuseUnmakeable(storage: Storage, release: PlannedRelease): Promise<void> {
  if (storage.facts.rename !== 'none') await requireReleases(storage);
  const work = unlikeCurrent(release, { writes: [...release.content], removes: [] });
  await refuseObstructed(releaseIn(storage, release.id), work, { stateBytes: 0, isUnderLease: false });
}

function tidyingOf({ rule, destination }: Selected, { leaseTimes }: PublishRequest): Tidying {
  return { rule, destination, leaseTimes };
}

/** Cleans up in a run with nothing to publish: locks of killed publishers, and old releases. */
async function sweep(
  context: CoreContext,
  storage: Storage,
  { releases, shown, stored }: Snapshot,
  tidying: Tidying,
): Promise<void> {
  if (shown !== null) await sweepAbandoned(context, releaseIn(storage, shown), stored.state);
  if (isRetirementDue(releases, tidying.rule, context.clock.now()))
    await retireAfterwards(context, storage, tidying);
  else await sweepAbandoned(context, storage, { kind: 'absent' });
}

function reportPlan(
  { onProgress }: PublishRequest,
  { destination, destinationPath }: ReleasePublication,
  { plan, release }: ReleasePlan,
): void {
  const outputs = release?.content ?? [];
  onProgress?.({
    type: 'planned',
    destinationId: destination.id,
    destinationPath,
    action: plan.action,
    outputs: outputs.length,
    bytes: outputs.reduce((sum, { size }) => sum + size, 0),
  });
}
