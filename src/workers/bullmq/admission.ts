import { randomUUID } from 'node:crypto';
import { newArchiveName } from '../../core/bundle/shared-archive.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishJob } from '../queue/job.ts';
import type { AcceptedRun, Admission, AdmissionRequest } from '../queue/job-queue.ts';
import { jobAgain, type NewRun } from '../queue/kept-bundles.ts';
import {
  admissionEnded,
  bundleGone,
  estimatedWaitSeconds,
  keyConflict,
  keyInProgress,
  pipelineFull,
  queueFull,
  runNotFinished,
  runUnknown,
  shuttingDown,
} from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { acceptedRun, queuedRun } from '../queue/run-transitions.ts';
import { type Replay, type RunStore, scopeKey, type Slot } from './run-store.ts';

export interface AdmissionsOptions {
  clock: Clock;
  log: Log;
  store: RunStore;
  queueSize: number;
  maxWaitingOf?: (pipelineId: string) => number | null;
  workerTimeoutMs: number;
  shared: {
    share(job: PublishJob, name: string): Promise<PublishJob>;
    remove(name: string): Promise<void>;
  };
  /** Called once the run has been stored in Redis, and a replica has confirmed it. */
  onAccepted: (pipelineId: string, runId: string) => Promise<void>;
}

/** An upload that this process is receiving. */
class HeldSlot {
  readonly slot: Slot;
  /** True if the upload occupies a queue slot. It doesn't if its Idempotency-Key was already used. */
  hasSlot: boolean;
  /** The upload's name in shared staging, or null until it gets one. Renewed together with the slot. */
  staged: string | null = null;
  /** True once the upload has been accepted, rejected, or released. */
  isEnded = false;
  readonly #store: RunStore;
  readonly #renewal: Timer;

  constructor(slot: Slot, hasSlot: boolean, { store, clock, workerTimeoutMs }: AdmissionsOptions) {
    this.slot = slot;
    this.hasSlot = hasSlot;
    this.#store = store;
    this.#renewal = clock.every(workerTimeoutMs / 3, () => {
      if (this.hasSlot) void store.renew(slot, this.staged).catch(() => undefined);
    });
  }

  /**
   * Stops the renewals. One that is already on its way is harmless: `renew.lua` ignores it after the release.
   */
  stopRenewing(): void {
    this.#renewal.cancel();
  }

  /** Releases the slot and the key. If Redis can't be reached, both simply expire. */
  async release(): Promise<void> {
    this.stopRenewing();
    await this.#store.release(this.slot).catch(() => undefined);
  }
}

/**
 * Tracks the uploads that this process is currently receiving. Each one reserves a slot and its
 * Idempotency-Key, which expire unless this process keeps renewing them. A crashed API therefore blocks them
 * for at most `workerTimeoutMs`. The name in shared staging lives longer, because the uploaded bytes are
 * deleted once it expires.
 */
export class Admissions {
  readonly #options: AdmissionsOptions;
  readonly #held = new Set<HeldSlot>();
  #phase: 'open' | 'draining' | 'closed' = 'open';
  #onIdle: (() => void) | undefined;

  constructor(options: AdmissionsOptions) {
    this.#options = options;
  }

  async reserve({ pipelineId, idempotency }: AdmissionRequest): Promise<Admission> {
    if (!this.isOpen()) throw shuttingDown();
    const key = scopeKey(pipelineId, idempotency);
    const rerunFailed = idempotency?.rerunFailed ?? false;
    const slot: Slot = { id: randomUUID(), pipelineId, key, rerunFailed };
    const held = new HeldSlot(slot, await this.#takeSlot(slot), this.#options);
    this.#held.add(held);
    return {
      accept: async (job, digest) => {
        if (held.isEnded) throw admissionEnded();
        held.isEnded = true;
        return this.#accept(held, job, digest);
      },
      release: async () => {
        if (held.isEnded) return;
        held.isEnded = true;
        await held.release();
        this.#forget(held);
      },
    };
  }

  /** See `JobQueue.rerun`. */
  async rerun(runId: string, next: NewRun): Promise<AcceptedRun> {
    if (!this.isOpen()) throw shuttingDown();
    const { store } = this.#options;
    const [old, found] = [await store.jobOf(runId), await store.find(runId)];
    if (old === null || found === undefined) throw runUnknown();
    const job = jobAgain(old, next);
    const { record, queued } = this.#newRecord(job);
    const answer = await store.rerun(old, job, queued, this.#limitsOf(job.pipelineId));
    switch (answer.outcome) {
      case 'ok':
        return this.#confirmed({ record, replayed: false, position: answer.position });
      case 'replay':
        return this.#confirmed(answerReplay(answer));
      case 'unknown':
        throw runUnknown();
      case 'unfinished':
        throw runNotFinished(found.status);
      case 'gone':
        throw bundleGone();
      case 'full':
      case 'pipeline_full':
        throw await this.#noSlot(answer.outcome, job.pipelineId);
    }
  }

  /** Reports whether the queue accepts new uploads. */
  isOpen(): boolean {
    return this.#phase === 'open';
  }

  drain(): void {
    if (this.#phase === 'open') this.#phase = 'draining';
  }

  /** Resolves when no uploads are in progress. */
  async idle(): Promise<void> {
    if (this.#held.size > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
  }

  /** Stops accepting uploads and releases every slot. */
  async close(): Promise<void> {
    this.#phase = 'closed';
    const held = [...this.#held];
    for (const one of held) this.#forget(one);
    await Promise.all(held.map((one) => one.release()));
  }

  async #accept(held: HeldSlot, job: PublishJob, digest: Digest): Promise<AcceptedRun> {
    try {
      const replay = await this.#replayOf(held, digest);
      if (replay !== null) return await this.#confirmed(replay);
      // While this upload was in progress, the first run with its key was deleted or failed.
      held.hasSlot ||= await this.#takeSlot(held.slot);
      return await this.#confirmed(await this.#queue(held, job, digest));
    } catch (error) {
      await held.release();
      throw error;
    } finally {
      this.#forget(held);
    }
  }

  /**
   * Looks for an earlier run with the same key, and returns null if there isn't one. This happens before the
   * bundle is copied to shared staging, since a replay doesn't need the copy.
   */
  async #replayOf(held: HeldSlot, digest: Digest): Promise<AcceptedRun | null> {
    this.#refuseIfClosed();
    const known = await this.#options.store.replay(held.slot, digest);
    if (known === null) return null;
    await held.release();
    return answerReplay(known);
  }

  async #queue(held: HeldSlot, job: PublishJob, digest: Digest): Promise<AcceptedRun> {
    const { store, shared } = this.#options;
    const name = job.staged === null ? null : newArchiveName();
    if (name !== null) {
      await store.stage(name);
      held.staged = name;
    }
    const sharedJob = name === null ? job : await shared.share(job, name);
    this.#refuseIfClosed();
    const { record, queued } = this.#newRecord(job);
    held.stopRenewing();
    // If this throws, we don't know whether the run was accepted. Keep the bundle: either the run needs it,
    // or housekeeping will eventually delete it as abandoned.
    const answer = await store.accept(held.slot, sharedJob, queued, digest, name);
    switch (answer.outcome) {
      case 'ok':
        return { record, replayed: false, position: answer.position };
      case 'swept':
        throw uploadSwept();
      case 'busy':
        await this.#unshare(name);
        throw keyInProgress();
      case 'conflict':
      case 'replay':
        await this.#unshare(name);
        return answerReplay(answer);
    }
  }

  /**
   * Waits until the run survives a failover, and then hands it over if it is new. Throws `queue_unavailable`
   * if no replica confirms it. A new upload is deleted again then, unless Redis is unreachable.
   */
  async #confirmed(accepted: AcceptedRun): Promise<AcceptedRun> {
    const { store, onAccepted } = this.#options;
    const { run_id: runId, pipeline_id: pipelineId } = accepted.record;
    try {
      await store.confirm(runId);
    } catch (error) {
      if (!accepted.replayed) await store.retract(runId).catch(() => undefined);
      throw error;
    }
    if (!accepted.replayed) await onAccepted(pipelineId, runId);
    return accepted;
  }

  /** Creates the run's record in two versions: one for the client's response, and one for the queue. */
  #newRecord(job: PublishJob): { record: RunRecord; queued: RunRecord } {
    const { clock } = this.#options;
    const record = acceptedRun(job, clock.now());
    return { record, queued: queuedRun(record, clock.now()) };
  }

  /** Removes the archive from shared staging. On failure, housekeeping removes it later. */
  async #unshare(name: string | null): Promise<void> {
    const { shared, log } = this.#options;
    if (name === null) return;
    await shared
      .remove(name)
      .catch((error: unknown) => log.warn({ err: error }, 'a shared bundle could not be removed now'));
  }

  #forget(held: HeldSlot): void {
    held.stopRenewing();
    this.#held.delete(held);
    if (this.#held.size === 0) this.#onIdle?.();
  }

  /**
   * Reserves a slot. Returns false without taking one if the key was already used, because nothing will be
   * queued.
   */
  async #takeSlot(slot: Slot): Promise<boolean> {
    const { store } = this.#options;
    const outcome = await store.reserve(slot, this.#limitsOf(slot.pipelineId)).catch((error: unknown) => {
      // Redis may have reserved it, and only the answer was lost. The client tries again with the same key.
      void store.release(slot).catch(() => undefined);
      throw error;
    });
    if (outcome === 'full' || outcome === 'pipeline_full') throw await this.#noSlot(outcome, slot.pipelineId);
    if (outcome === 'busy') throw keyInProgress();
    return outcome === 'ok';
  }

  async #noSlot(outcome: 'full' | 'pipeline_full', pipelineId: string): Promise<WaybillError> {
    const { store } = this.#options;
    const { queueSize, maxWaiting } = this.#limitsOf(pipelineId);
    return outcome === 'full' || maxWaiting === null
      ? queueFull(queueSize, estimatedWaitSeconds(await store.pace(null)))
      : pipelineFull(pipelineId, maxWaiting, estimatedWaitSeconds(await store.pace(pipelineId)));
  }

  #limitsOf(pipelineId: string): { queueSize: number; maxWaiting: number | null } {
    const { queueSize, maxWaitingOf } = this.#options;
    return { queueSize, maxWaiting: maxWaitingOf?.(pipelineId) ?? null };
  }

  #refuseIfClosed(): void {
    if (this.#phase === 'closed') throw shuttingDown();
  }
}

function answerReplay(known: Replay): AcceptedRun {
  if (known.outcome === 'replay') return { record: known.record, replayed: true, position: known.position };
  throw keyConflict();
}

function uploadSwept(): WaybillError {
  return new WaybillError(
    'queue_unavailable',
    'the queue was unreachable for too long, so the upload was cancelled',
    {
      hint: 'try again',
    },
  );
}
