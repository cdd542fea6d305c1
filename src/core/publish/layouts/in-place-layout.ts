import { readState, stateKey, type StoredState } from '../../catalog/catalog-store.ts';
import type { Lease } from '../../catalog/lease/lease.ts';
import { decideUnderLease, sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import { WaybillError } from '../../lib/errors.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import { versionConflict } from '../../storage/storage-errors.ts';
import { type AppliedPaths, applyUnderLease, noAppliedPaths, refuseObstructed } from '../apply/apply.ts';
import { healModes } from '../apply/heal-modes.ts';
import { type DecideOn, decideOnLatest, isSameState, needsSurvey, newDecider } from '../decide-on-state.ts';
import { changesDestination, type Plan } from '../plan.ts';
import type { PublishRequest } from '../publish-request.ts';
import { plannedResult } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import type {
  Candidate,
  LayoutDecision,
  ObservedState,
  PublicationLayout,
  PublicationTask,
} from './layout.ts';
import {
  type FormerRelease,
  formerRelease,
  hasCurrentRelease,
  isUnpublished,
  type MigrationInPlace,
  migrationInPlace,
  refuseObstructedMigration,
} from './migrate-in-place.ts';

interface ObservedInPlace extends ObservedState {
  /** The current release, which has to be migrated first; null if there are no releases at this path. */
  release: FormerRelease | null;
}

interface InPlaceDecision extends LayoutDecision, ObservedInPlace {
  decideOn: DecideOn;
  migration: MigrationInPlace | null;
}

/** Publishes outputs directly at the bundle path. */
export class InPlaceLayout implements PublicationLayout<ObservedInPlace, InPlaceDecision> {
  readonly urlPath: string;
  readonly otherLayout = 'releases';
  readonly #task: PublicationTask;

  constructor(task: PublicationTask) {
    this.#task = task;
    this.urlPath = task.publication.destinationPath;
  }

  async observe(): Promise<ObservedInPlace> {
    const { storage, publication } = this.#task;
    const inPlace = await readState(storage);
    const release = isUnpublished(inPlace) ? await formerRelease(storage, publication.destinationPath) : null;
    return { ...observedState(release?.stored ?? inPlace), base: release?.storage ?? storage, release };
  }

  /**
   * Decides as though the release had already been migrated. If the decision is not to publish, nothing is
   * migrated either.
   */
  async decide(
    observed: ObservedInPlace,
    candidate: Candidate,
    request: PublishRequest,
  ): Promise<InPlaceDecision> {
    const { storage, root, publication } = this.#task;
    const { stored, release } = observed;
    if (request.keepsReleases === true && (release !== null || (await hasCurrentRelease(storage))))
      throw hasReleases(publication.destinationPath);
    const input = candidate.input(request);
    const migration = release === null ? null : await migrationInPlace(this.#task, release, input);
    const at = release?.storage ?? storage;
    const decideOn = newDecider({ storage: at, root }, publication.destination, input, request);
    const plan = await decideOnLatest(at, stored, decideOn);
    const decision = { ...observed, plan, writes: plan.writes, decideOn, migration };
    if (!changesDestination(plan.action) && plan.action !== 'skip_same')
      return { ...decision, migration: null };
    if (migration === null || changesDestination(migration.plan.action)) return decision;
    return { ...decision, plan: migration.plan, migration: null };
  }

  async preview(decision: InPlaceDecision, candidate: Candidate): Promise<ActionResult> {
    const { storage } = this.#task;
    const { plan, migration, stored } = decision;
    if (migration !== null) await refuseObstructedMigration(storage, migration, plan);
    else if (plan.action === 'skip_same') await this.#healModes(candidate, stored.raw?.size);
    else if (changesDestination(plan.action))
      await refuseObstructed(storage, plan, { stateBytes: stored.raw?.size ?? 0, isUnderLease: false });
    return plannedResult(candidate.bundle.path, plan, candidate.planned, null);
  }

  async execute(decision: InPlaceDecision, candidate: Candidate): Promise<ActionResult | null> {
    const { context, storage } = this.#task;
    const { plan, stored } = decision;
    if (plan.action === 'skip_same') {
      await sweepAbandoned(context, storage, stored.state);
      await this.#healModes(candidate, stored.raw?.size);
    }
    const done = changesDestination(plan.action)
      ? await this.#decideAndApply(decision, candidate)
      : { plan, applied: null };
    if (done === null) return null;
    // Files that were kept were not rewritten, so another process may have changed their modes.
    if (done.plan.kept.length > 0) await this.#healModes(candidate);
    const applied = done.plan.action === 'skip_same' ? noAppliedPaths : done.applied;
    return plannedResult(candidate.bundle.path, done.plan, candidate.planned, applied);
  }

  async #healModes({ planned }: Candidate, stateBytes?: number): Promise<void> {
    const { context, storage, publication, request } = this.#task;
    const warning = await healModes(context, storage, { planned, stateBytes }, request);
    if (warning !== null) publication.warn?.(warning);
  }

  /**
   * Takes the lease, decides again and applies the plan. Returns null if a newer bundle has been published
   * since this one was selected.
   */
  async #decideAndApply(
    { decideOn }: InPlaceDecision,
    candidate: Candidate,
  ): Promise<{ plan: Plan; applied: AppliedPaths | null } | null> {
    const { context, storage } = this.#task;
    return decideUnderLease(context, storage, async (lease) => {
      if (candidate.isOutdated(observedState(lease.found))) return null;
      const plan = await decideOn(lease.found);
      lease.check();
      // On an object store, other publishers can keep writing until this attempt has written its intent.
      if (needsSurvey(plan) && !isSameState(await readState(storage), lease.found))
        throw versionConflict(storage, stateKey);
      if (!changesDestination(plan.action)) return { plan, applied: null };
      return { plan, applied: await this.#apply(plan, lease) };
    });
  }

  async #apply(plan: Plan, lease: Lease): Promise<AppliedPaths> {
    const { context, storage, publication, request } = this.#task;
    const { id: destinationId, fileConcurrency } = publication.destination;
    return applyUnderLease(context, plan, {
      storage,
      lease,
      concurrency: fileConcurrency,
      onBytes: (count) => request.onProgress?.({ type: 'bytes', destinationId, count }),
      onOutput: (path) => request.onProgress?.({ type: 'output', destinationId, path }),
    });
  }
}

function observedState(stored: StoredState): ObservedState {
  return { stored, version: stored.state.kind === 'valid' ? stored.state.catalog.generation : null };
}

function hasReleases(destinationPath: string): WaybillError {
  return new WaybillError(
    'state_conflict',
    `${describeBundlePath(destinationPath)} has releases, which readers may follow instead of files in place; nothing was changed`,
    {
      hint: 'add --releases; to leave releases for good, use waybill run with layout: in_place in a configuration, and then waybill unpublish --layout releases',
    },
  );
}
