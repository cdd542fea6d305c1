import type { Lease } from '../../catalog/lease/lease.ts';
import { decidingUnderLease, sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import { readState, stateKey, type StoredState } from '../../catalog/store.ts';
import { versionConflict } from '../../storage/errors.ts';
import { type Applied, applyUnderLease, nothingApplied, refuseObstructed } from '../apply/apply.ts';
import { healModes } from '../apply/heal-modes.ts';
import { type DecideOn, decideOnLatest, decider, dependsOnStrays, isSameState } from '../decide-on-state.ts';
import { changesDestination, type Plan } from '../plan.ts';
import { plannedResult } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import { asLayoutChange } from './adoption.ts';
import type { Assignment, Candidate, Decision, PublicationLayout, Sight } from './layout.ts';
import {
  carryOutMove,
  isUnpublished,
  type LeftReleases,
  type Move,
  planMove,
  refuseObstructedMove,
  releasesToLeave,
} from './leave-releases.ts';

interface InPlaceSight extends Sight {
  /** The current release to move in place first; null if the path is not published as releases. */
  left: LeftReleases | null;
}

interface InPlaceDecision extends Decision, InPlaceSight {
  decideOn: DecideOn;
  /** The move that comes first; null if there is none. */
  move: Move | null;
}

/**
 * Publishes the outputs at the bundle path itself. If the path is published as releases, the current release
 * is first moved there.
 */
export class InPlace implements PublicationLayout<InPlaceSight, InPlaceDecision> {
  readonly urlPath: string;
  readonly #assignment: Assignment;
  /** Whether this publication moved a release in place. */
  #hasMoved = false;

  constructor(assignment: Assignment) {
    this.#assignment = assignment;
    this.urlPath = assignment.publication.destinationPath;
  }

  async observe(): Promise<InPlaceSight> {
    const { storage, publication } = this.#assignment;
    const inPlace = await readState(storage);
    const left = isUnpublished(inPlace) ? await releasesToLeave(storage, publication.destinationPath) : null;
    return { ...sightOf(left?.stored ?? inPlace), base: left?.storage ?? storage, left };
  }

  /** Decides on the release to move as if it were in place already. */
  async decide(sight: InPlaceSight, candidate: Candidate): Promise<InPlaceDecision> {
    const { storage, root, publication, request } = this.#assignment;
    const { stored, left } = sight;
    const { destination } = publication;
    const input = candidate.input(request);
    const move = left === null ? null : await planMove({ storage, root }, left, destination, input);
    const at = left?.storage ?? storage;
    const { allowRemovals } = request;
    // The decision was already reported before the move.
    const options = this.#hasMoved ? { allowRemovals } : request;
    const decideOn = decider({ storage: at, root }, destination, input, options);
    const plan = await decideOnLatest(at, stored, decideOn);
    return { ...sight, plan, writes: plan.writes, decideOn, move };
  }

  async preview(decision: InPlaceDecision, candidate: Candidate): Promise<ActionResult> {
    const { storage } = this.#assignment;
    const { plan, move, stored } = decision;
    const refused = refusedBy(decision);
    if (refused !== null) return this.#result(candidate, refused, null, false);
    if (move !== null) await refuseObstructedMove(storage, move, plan);
    else if (plan.action === 'skip_same') await this.#healModes(candidate, stored.raw?.size);
    else if (changesDestination(plan.action))
      await refuseObstructed(storage, plan, { stateBytes: stored.raw?.size ?? 0, isUnderLease: false });
    return this.#result(candidate, plan, null, move !== null);
  }

  async carryOut(decision: InPlaceDecision, candidate: Candidate): Promise<ActionResult | null> {
    const { context, storage } = this.#assignment;
    const { plan, move, stored } = decision;
    const refused = refusedBy(decision);
    if (refused !== null) return this.#result(candidate, refused, null, false);
    if (move !== null) {
      this.#hasMoved = (await carryOutMove(this.#assignment, move)) || this.#hasMoved;
      return null;
    }
    if (plan.action === 'skip_same') {
      await sweepAbandoned(context, storage, stored.state);
      await this.#healModes(candidate, stored.raw?.size);
    }
    const done = changesDestination(plan.action)
      ? await this.#decideAndApply(decision, candidate)
      : { plan, applied: null };
    if (done === null) return null;
    // Kept files are not written, so they keep a mode that another process gave them.
    if (done.plan.kept.length > 0) await this.#healModes(candidate);
    const applied = done.plan.action === 'skip_same' ? nothingApplied : done.applied;
    return this.#result(candidate, done.plan, applied, this.#hasMoved);
  }

  async #healModes({ planned }: Candidate, stateBytes?: number): Promise<void> {
    const { context, storage, publication, request } = this.#assignment;
    const warning = await healModes(context, storage, { planned, stateBytes }, request);
    if (warning !== null) publication.warn?.(warning);
  }

  /** Takes the lease, decides again and applies the plan. null if the bundle became outdated. */
  async #decideAndApply(
    { decideOn }: InPlaceDecision,
    candidate: Candidate,
  ): Promise<{ plan: Plan; applied: Applied | null } | null> {
    const { context, storage, request } = this.#assignment;
    return decidingUnderLease(
      context,
      storage,
      async (lease) => {
        if (candidate.isOutdated(sightOf(lease.found))) return null;
        const plan = await decideOn(lease.found);
        lease.check();
        // On object stores, other publishers can write until this attempt has written its intent.
        if (dependsOnStrays(plan) && !isSameState(await readState(storage), lease.found))
          throw versionConflict(storage, stateKey);
        if (!changesDestination(plan.action)) return { plan, applied: null };
        return { plan, applied: await this.#apply(plan, lease) };
      },
      request.leaseTimes,
    );
  }

  async #apply(plan: Plan, lease: Lease): Promise<Applied> {
    const { context, storage, publication, request } = this.#assignment;
    const { id: destinationId, fileConcurrency } = publication.destination;
    return applyUnderLease(context, storage, lease, plan, {
      concurrency: fileConcurrency,
      onBytes: (count) => request.onProgress?.({ type: 'bytes', destinationId, count }),
      onOutput: (path) => request.onProgress?.({ type: 'output', destinationId, path }),
    });
  }

  #result(
    { bundle, planned }: Candidate,
    plan: Plan,
    applied: Applied | null,
    isLayoutChange: boolean,
  ): ActionResult {
    const { publication, request } = this.#assignment;
    const result = plannedResult(bundle.path, plan, planned, applied);
    return isLayoutChange ? asLayoutChange(result, 'releases', publication, request) : result;
  }
}

function sightOf(stored: StoredState): Sight {
  return { stored, version: stored.state.kind === 'valid' ? stored.state.catalog.generation : null };
}

/** The plan that refuses to move the release, or to publish after the move. null if neither does. */
function refusedBy({ plan, move }: InPlaceDecision): Plan | null {
  if (move === null) return null;
  if (!changesDestination(plan.action) && plan.action !== 'skip_same') return plan;
  return changesDestination(move.plan.action) ? null : move.plan;
}
