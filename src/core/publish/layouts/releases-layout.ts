import { sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import type { ChannelConfig, ReleasesConfig } from '../../config/config.ts';
import { describeBundlePath, pathWithin } from '../../lib/paths.ts';
import { setChannel } from '../../releases/channels.ts';
import { type ReleaseId, releaseKey } from '../../releases/release.ts';
import { requireReleases } from '../../releases/releases-store.ts';
import { isRetirementDue } from '../../releases/retention.ts';
import { releaseStorage, type SwitchRefusal } from '../../releases/stored-releases.ts';
import { activate, switchRefused } from '../../releases/switch.ts';
import { noAppliedPaths, refuseObstructed } from '../apply/apply.ts';
import { healModes } from '../apply/heal-modes.ts';
import type { PublishRequest } from '../publish-request.ts';
import { releaseResult } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import { retireAfterCommit, type Retirement, retireReleases } from '../unpublish/retire-releases.ts';
import { fillRelease, onlyChanged } from './fill-release.ts';
import type {
  Candidate,
  LayoutDecision,
  ObservedState,
  PublicationLayout,
  PublicationTask,
} from './layout.ts';
import { migrationToReleases } from './migrate-to-releases.ts';
import {
  type PlannedRelease,
  planRelease,
  readSnapshot,
  type ReleasePlan,
  type Snapshot,
} from './plan-release.ts';

interface ObservedReleases extends ObservedState {
  /** The state of the bundle path. During a migration, this is the state that the migration will lead to. */
  snapshot: Snapshot;
  /** The migration of the files published in place to a release; null if there are none. */
  migration: Awaited<ReturnType<typeof migrationToReleases>>;
}

interface ReleaseDecision extends ObservedReleases, ReleasePlan, Pick<LayoutDecision, 'writes'> {}

/**
 * Publishes outputs as a release. All of its files are written first. A single atomic step then makes the
 * release current or points the channel at it, so readers see either all of the old release or all of the new
 * one. Files that were published in place become a release of their own first, so that a rollback is
 * possible.
 */
export class ReleasesLayout implements PublicationLayout<ObservedReleases, ReleaseDecision> {
  readonly urlPath: string;
  readonly otherLayout = 'in_place';
  readonly #task: PublicationTask;
  readonly #channel: ChannelConfig | null;
  readonly #retirement: Retirement;

  constructor(task: PublicationTask, rule: ReleasesConfig, channel: ChannelConfig | null) {
    const { destination, destinationPath } = task.publication;
    this.#task = task;
    this.#channel = channel;
    const { fileConcurrency: concurrency } = destination;
    this.#retirement = { rule, concurrency };
    this.urlPath = rule.currentInUrl ? pathWithin(destinationPath, 'current') : destinationPath;
  }

  async observe(candidate: Candidate): Promise<ObservedReleases> {
    const { storage, publication } = this.#task;
    const found = await readSnapshot(storage, publication.destinationPath, this.#channel?.name ?? null);
    const migration = await migrationToReleases(this.#task, found, candidate);
    const snapshot = migration?.snapshot ?? found;
    const { stored, visible: version, base } = snapshot;
    return { stored, version, base, snapshot, migration };
  }

  async decide(
    observed: ObservedReleases,
    candidate: Candidate,
    request: PublishRequest,
  ): Promise<ReleaseDecision> {
    const { storage, publication } = this.#task;
    const input = candidate.input(request);
    const decided = await planRelease(storage, observed.snapshot, publication.destination, input, request);
    return { ...observed, ...decided, writes: decided.release?.content ?? [] };
  }

  async preview(decision: ReleaseDecision, candidate: Candidate): Promise<ActionResult> {
    const { release, migration } = decision;
    if (migration !== null) await this.#refuseUnmakeable(migration.release);
    if (release !== null) await this.#refuseUnmakeable(release);
    return this.#result(decision, candidate);
  }

  async execute(decision: ReleaseDecision, candidate: Candidate): Promise<ActionResult | null> {
    const { release } = decision;
    return release === null
      ? this.#leaveAsIs(decision, candidate)
      : this.#publish(release, decision, candidate);
  }

  /**
   * Handles a run with nothing to publish: extends the channel's expiry and cleans up. Returns null if
   * another process got there first.
   */
  async #leaveAsIs(decision: ReleaseDecision, candidate: Candidate): Promise<ActionResult | null> {
    const { plan, snapshot } = decision;
    const { visible } = snapshot;
    if (plan.action === 'skip_same') {
      await this.#sweep(snapshot);
      if (visible !== null) await this.#healModes(visible, candidate);
      const isSwitched =
        this.#channel === null ||
        visible === null ||
        (await this.#switchTo(visible, snapshot)) === 'switched';
      if (!isSwitched) return null;
    }
    return this.#result(decision, candidate);
  }

  async #healModes(shown: ReleaseId, { planned }: Candidate): Promise<void> {
    const { context, storage, publication, request } = this.#task;
    const warning = await healModes(context, releaseStorage(storage, shown), { planned }, request);
    if (warning !== null) publication.warn?.(warning);
  }

  /** Returns null if another process got there first. */
  async #publish(
    release: PlannedRelease,
    decision: ReleaseDecision,
    { bundle, planned }: Candidate,
  ): Promise<ActionResult | null> {
    const { context, storage, publication, request } = this.#task;
    const { destination, destinationPath } = publication;
    const { plan, snapshot } = decision;
    await requireReleases(storage);
    const filling = {
      release,
      plan,
      base: snapshot.visible === null ? null : releaseKey(snapshot.visible),
      destinationPath: pathWithin(destinationPath, releaseKey(release.id)),
      destination,
    };
    const applied = await fillRelease(context, storage, filling, request);
    const outcome = await this.#switchTo(release.id, snapshot);
    // Finish removing the old copy of this release before publishing it again.
    if (outcome === 'being_removed') await retireReleases(context, storage, this.#retirement);
    if (outcome !== 'switched') return null;
    await retireAfterCommit(context, storage, this.#retirement);
    return releaseResult(bundle.path, plan, planned, applied, release.id);
  }

  /**
   * Switches the current pointer, or the channel's pointer, to a complete release. Returns `overtaken` if the
   * caller must decide again. Throws `release_unusable` if deciding again would not help, and the same errors
   * as `changeReleases`.
   */
  async #switchTo(
    to: ReleaseId,
    { pointer: from }: Snapshot,
  ): Promise<'switched' | 'overtaken' | 'being_removed'> {
    const refusal = await this.#refusalToSwitch(to, from);
    if (refusal === null) return 'switched';
    if (refusal.why === 'being_removed') return refusal.why;
    const where = describeBundlePath(this.#task.publication.destinationPath);
    if (refusal.why === 'name_taken') throw switchRefused(refusal, where);
    return 'overtaken';
  }

  async #refusalToSwitch(to: ReleaseId, from: ReleaseId | null): Promise<SwitchRefusal | null> {
    const { context, storage } = this.#task;
    const channel = this.#channel;
    if (channel !== null) return setChannel(context, storage, { ...channel, to, from });
    const done = await activate(context, storage, to, { dryRun: false, from });
    return done.outcome === 'refused' ? done.refusal : null;
  }

  /** Cleans up after killed publishers and removes old releases, in a run with nothing to publish. */
  async #sweep({ releases, visible, stored }: Snapshot): Promise<void> {
    const { context, storage } = this.#task;
    if (visible !== null) await sweepAbandoned(context, releaseStorage(storage, visible), stored.state);
    if (isRetirementDue(releases, this.#retirement.rule, context.clock.now()))
      await retireAfterCommit(context, storage, this.#retirement);
    else await sweepAbandoned(context, storage, { kind: 'absent' });
  }

  async #refuseUnmakeable(release: PlannedRelease): Promise<void> {
    const { storage } = this.#task;
    if (storage.rename !== undefined) await requireReleases(storage);
    const work = onlyChanged(release, { writes: [...release.content], removes: [] });
    await refuseObstructed(releaseStorage(storage, release.id), work, { stateBytes: 0, isUnderLease: false });
  }

  /** Returns the result of a dry run, or of a run with nothing to publish. */
  #result(
    { plan, release, heldBack, snapshot: { pointer, visible } }: ReleaseDecision,
    { bundle, planned }: Candidate,
  ): ActionResult {
    const { dryRun } = this.#task.request;
    const isSame = release === null && plan.action === 'skip_same';
    const applied = isSame && heldBack === null && !dryRun ? noAppliedPaths : null;
    const id = release?.id ?? heldBack ?? (isSame ? visible : null);
    const result = releaseResult(bundle.path, plan, planned, applied, id);
    const channel = this.#channel;
    if (!isSame || channel === null || visible === null || pointer !== null) return result;
    const message = `channel "${channel.name}" leads to release ${visible}, which is already current`;
    return { ...result, action: 'replace_catalog', reason: { code: 'channel_set', message } };
  }
}
