import { abortedIfStopped } from '../bundle-publication.ts';
import { pathWithin } from '../../bundle-path.ts';
import { publishedBy } from '../../catalog/published-bundles.ts';
import type { CoreContext } from '../../context.ts';
import { destinationBusy } from '../../lease/lease.ts';
import { sweepAbandoned } from '../../lease/with-lease.ts';
import { releaseKey, type ReleaseId } from '../../releases/release.ts';
import { isRetirementDue } from '../../releases/retention.ts';
import { requireReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';
import { refuseObstructed } from '../apply/preflight.ts';
import { isOvertaken } from '../decision/stale.ts';
import { planOutputs } from '../outputs.ts';
import type { DecisionInput, PlannedOutput } from '../plan.ts';
import type { PublishRequest } from '../publish-request.ts';
import { allKept, failedResult } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import { adoptInPlace, carryOutAdoption } from './adopt-in-place.ts';
import { fillRelease, unlikeCurrent, type Filling } from './fill-release.ts';
import { asLayoutChange, layoutWarning } from './layout-change.ts';
import { asChannelSet, lead } from './lead.ts';
import { planRelease, type PlannedRelease, type ReleasePlan } from './plan-release.ts';
import { releaseResult, releasedBy } from './release-result.ts';
import type { ReleasePublication } from './release-publication.ts';
import { lookAtReleases, type Standing } from './standing.ts';
import { retireAfterwards, retireOld, type Tidying } from './tidy-releases.ts';

/** Others may be at work on the bundle path, too; then this starts over, so many times. */
const maxRounds = 10;

/**
 * Publishes one bundle as a release, which becomes the current one, or that of a channel, in one step once it
 * is complete; or, in a
 * dry run, reports which release that would be. `root` is rooted at the destination root. After a kill at any
 * moment readers have the former release or this one, and the next run finishes it. What was published in
 * place becomes a release of its own first, so that one can go back to it. Never throws: a failure is in the
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
      const found = await lookAtReleases(storage, destinationPath, channel?.name ?? null);
      const adopted = await adoptInPlace(context, storage, found, selected, request);
      const standing = adopted?.standing ?? found;
      selected = await upToDate(selected, standing);
      planned = await outputsOf(selected, standing, request);
      const input = inputFor(selected, planned, request);
      // Once that is adopted which it was decided on, it comes to the same.
      const asked = hasAdopted ? { allowRemovals: request.allowRemovals ?? false } : request;
      const decided = await planRelease(storage, standing, destination, input, asked);
      if (round === 1) reportPlan(request, publication, decided);
      if (adopted !== null) {
        if (!request.dryRun) {
          hasAdopted ||= await carryOutAdoption(context, storage, adopted, request);
          continue;
        }
        await refuseUnmakeable(storage, adopted.filling.release);
      }
      const result = await carryOut(context, storage, { selected, planned, standing, decided }, request);
      if (result === null) continue;
      const told = { ...result, channel: channel?.name ?? null };
      return hasAdopted || adopted !== null ? toldAsAdopted(told, selected, request) : told;
    }
    throw destinationBusy(storage, null);
  } catch (error) {
    const { path } = selected.bundle;
    context.log.error({ err: error, destination: destination.id, bundle: path }, 'publication failed');
    const failed = failedResult(path, destinationPath, planned, abortedIfStopped(error, context.signal));
    return { ...failed, channel: channel?.name ?? null };
  }
}

function toldAsAdopted(
  result: ActionResult,
  { destinationPath, warn }: Selected,
  { dryRun }: PublishRequest,
): ActionResult {
  if (result.error !== null) return result;
  warn?.(layoutWarning('in_place', destinationPath, dryRun));
  return asLayoutChange(result, 'in_place');
}

interface Selected extends ReleasePublication {
  /** The release that readers had when the bundle was selected again; null if it was not. */
  confirmedFor: ReleaseId | null;
}

/** As in place: what was selected as the newest may have been overtaken since. */
async function upToDate(selected: Selected, { shown, stored }: Standing): Promise<Selected> {
  const { selectAgain, bundle, owner, confirmedFor } = selected;
  if (selectAgain === undefined || shown === confirmedFor) return selected;
  const { identity: source, created } = bundle;
  if (!isOvertaken({ source, created }, publishedBy(stored.state, owner))) return selected;
  return { ...selected, bundle: await selectAgain(), confirmedFor: shown };
}

async function outputsOf(
  { bundle, owner, destination, destinationPath, rule }: Selected,
  { stored: { state } }: Standing,
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
  standing: Standing;
  decided: ReleasePlan;
}

/** Null if others were quicker, so that it has to be decided anew. */
async function carryOut(
  context: CoreContext,
  storage: Storage,
  { selected, planned, standing, decided }: Decided,
  request: PublishRequest,
): Promise<ActionResult | null> {
  const { plan, release, heldBack } = decided;
  const { pointer, shown } = standing;
  const { path } = selected.bundle;
  const { channel } = selected;
  const tidying = tidyingOf(selected, request);
  const leadTo = async (id: ReleaseId): ReturnType<typeof lead> =>
    lead(context, storage, selected, standing, id, request.leaseTimes);
  if (release === null) {
    const isSame = plan.action === 'skip_same';
    if (isSame && !request.dryRun) await sweep(context, storage, standing, tidying);
    const applied = isSame && heldBack === null && !request.dryRun ? allKept(planned) : null;
    const same = releaseResult(path, plan, planned, {
      ...{ applied, release: heldBack ?? (isSame ? shown : null) },
    });
    if (!isSame || channel === null || shown === null) return same;
    // Its time begins anew with each publication.
    if (!request.dryRun && (await leadTo(shown)) !== 'led') return null;
    return pointer === null ? asChannelSet(same, channel.name, shown) : same;
  }
  if (request.dryRun) {
    await refuseUnmakeable(storage, release);
    return releaseResult(path, plan, planned, { applied: null, release: release.id });
  }
  await requireReleases(storage);
  const filled = await fillRelease(context, storage, fillingOf(selected, decided, release, shown), request);
  const led = await leadTo(release.id);
  if (led === 'being_removed') await retireOld(context, storage, tidying);
  if (led !== 'led') return null;
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

/** What a run with nothing to publish finds lying about: locks of the killed, and old releases. */
async function sweep(
  context: CoreContext,
  storage: Storage,
  { releases, shown, stored }: Standing,
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
    ...{ type: 'planned', destinationId: destination.id, destinationPath, action: plan.action },
    ...{ outputs: outputs.length, bytes: outputs.reduce((sum, { size }) => sum + size, 0) },
  });
}
