import { randomUUID } from 'node:crypto';
import { newArchiveName } from '../../core/bundle/shared-archive.ts';
import type { Timer } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { type Rerun, rerunJob } from '../queue/bundle-retention.ts';
import type { PublishJob } from '../queue/job.ts';
import type { AcceptedRun, Admission, AdmissionRequest } from '../queue/job-queue.ts';
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
import type { TriggerOf, Triggers } from '../queue/trigger.ts';
import { type Replay, scopeKey, type Slot, type SlotLimits } from './admission-store.ts';
import type { QueueContext } from './bullmq-options.ts';

export interface AdmissionsOptions extends Pick<
  QueueContext,
  'clock' | 'log' | 'store' | 'queueSize' | 'maxWaitingOf' | 'workerTimeoutMs' | 'shared'
> {
  /**
   * Called once the run has been stored in Redis. `confirmed` is its id if a replica has confirmed it, too.
   */
  onAccepted: (pipelineId: string, confirmed?: string) => Promise<void>;
}

/** An upload that this process is receiving. */
interface Held {
  readonly slot: Slot;
  /** True if the upload occupies a queue slot. It does not if its Idempotency-Key was already used. */
  hasSlot: boolean;
  /** The upload's name in shared staging, or null until it gets one. Renewed together with the slot. */
  staged: string | null;
  /** True once the upload has been accepted, rejected, or released. */
  isEnded: boolean;
  /**
   * A renewal that is on its way when this is cancelled is harmless: `renew.lua` ignores it after the
   * release.
   */
  renewal: Timer;
}

/**
 * Tracks the uploads that this process is currently receiving. Each one reserves a slot and its
 * Idempotency-Key, which expire unless this process keeps renewing them. A crashed API therefore blocks them
 * for at most `workerTimeoutMs`. The name in shared staging lives longer, because the uploaded bytes are
 * deleted once it expires.
 */
export class Admissions {
  readonly #options: AdmissionsOptions;
  readonly #held = new Set<Held>();
  #phase: 'open' | 'draining' | 'closed' = 'open';
  #onIdle: (() => void) | undefined;

  constructor(options: AdmissionsOptions) {
    this.#options = options;
  }

  /**
   * Decides on triggers in Redis. We do not use BullMQ's job schedulers, because they only compute the next
   * tick when a worker picks up the previous one. After an outage, they therefore always catch up on exactly
   * one tick. Their jobs are also stored apart from our run records, while here the tick and its run are
   * written in one step.
   */
  readonly triggers: Triggers = {
    last: async (pipelineId, kind) =>
      (await this.#options.store.admission.lastTrigger(pipelineId, kind)) as TriggerOf<typeof kind> | null,
    decide: async (job, options = {}) => {
      this.#requireOpen();
      const { store, onAccepted } = this.#options;
      const { record, queued } = this.#newRecord(job);
      const decision = await store.admission.trigger(job, queued, options);
      if (decision.outcome !== 'started') return decision;
      await onAccepted(job.pipelineId);
      return { ...decision, record };
    },
  };

  async reserve(request: AdmissionRequest): Promise<Admission> {
    this.#requireOpen();
    const { pipelineId, idempotency } = request;
    const { store, clock, workerTimeoutMs } = this.#options;
    const rerunFailed = idempotency?.rerunFailed ?? false;
    const slot: Slot = { id: randomUUID(), pipelineId, key: scopeKey(request), rerunFailed };
    const held: Held = {
      slot,
      hasSlot: await this.#takeSlot(slot),
      staged: null,
      isEnded: false,
      renewal: clock.every(workerTimeoutMs / 3, () => {
        if (held.hasSlot) void store.admission.renew(slot, held.staged).catch(() => undefined);
      }),
    };
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
        await this.#release(held);
        this.#forget(held);
      },
    };
  }

  /** See `JobQueue.rerun`. */
  async rerun(runId: string, next: Rerun): Promise<AcceptedRun> {
    this.#requireOpen();
    const { admission, reads } = this.#options.store;
    const old = await admission.jobOf(runId);
    const found = await reads.find(runId);
    if (old === null || found === undefined) throw runUnknown();
    const job = rerunJob(old, next);
    const { record, queued } = this.#newRecord(job);
    const answer = await admission.rerun(old, job, queued, this.#limitsOf(job.pipelineId));
    switch (answer.outcome) {
      case 'ok':
        return this.#confirmed({ record, replayed: false, position: answer.position });
      case 'replay':
      case 'conflict':
        return this.#confirmed(replayed(answer));
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
    await Promise.all(held.map((one) => this.#release(one)));
  }

  async #accept(held: Held, job: PublishJob, digest: Digest): Promise<AcceptedRun> {
    try {
      const replay = await this.#replayOf(held, digest);
      if (replay !== null) return await this.#confirmed(replay);
      // While this upload was in progress, the first run with its key was deleted or failed.
      held.hasSlot ||= await this.#takeSlot(held.slot);
      return await this.#confirmed(await this.#queue(held, job, digest));
    } catch (error) {
      await this.#release(held);
      throw error;
    } finally {
      this.#forget(held);
    }
  }

  /**
   * Looks for an earlier run with the same key, and returns null if there is not one. This happens before the
   * bundle is copied to shared staging, since a replay does not need the copy.
   */
  async #replayOf(held: Held, digest: Digest): Promise<AcceptedRun | null> {
    this.#refuseIfClosed();
    const known = await this.#options.store.admission.replay(held.slot, digest);
    if (known === null) return null;
    await this.#release(held);
    return replayed(known);
  }

  async #queue(held: Held, job: PublishJob, digest: Digest): Promise<AcceptedRun> {
    const { store, shared } = this.#options;
    const name = job.staged === null ? null : newArchiveName();
    if (name !== null) {
      await store.admission.stage(name);
      held.staged = name;
    }
    const sharedJob = name === null ? job : await shared.share(job, name);
    this.#refuseIfClosed();
    const { record, queued } = this.#newRecord(job);
    held.renewal.cancel();
    // If this throws, we do not know whether the run was accepted. Keep the bundle: either the run needs it,
    // or housekeeping will eventually delete it as abandoned.
    const answer = await store.admission.accept(held.slot, sharedJob, queued, digest, name);
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
        return replayed(answer);
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
      await store.confirmation.confirm(runId);
    } catch (error) {
      if (!accepted.replayed) await store.admission.retract(runId).catch(() => undefined);
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

  /** Releases the slot and the key. If Redis cannot be reached, both simply expire. */
  async #release({ slot, renewal }: Held): Promise<void> {
    renewal.cancel();
    await this.#options.store.admission.release(slot).catch(() => undefined);
  }

  #forget(held: Held): void {
    held.renewal.cancel();
    this.#held.delete(held);
    if (this.#held.size === 0) this.#onIdle?.();
  }

  /**
   * Reserves a slot. Returns false without taking one if the key was already used, because nothing will be
   * queued.
   */
  async #takeSlot(slot: Slot): Promise<boolean> {
    const { admission } = this.#options.store;
    const limits = this.#limitsOf(slot.pipelineId);
    const outcome = await admission.reserve(slot, limits).catch((error: unknown) => {
      // Redis may have reserved it, and only the answer was lost. The client tries again with the same key.
      void admission.release(slot).catch(() => undefined);
      throw error;
    });
    if (outcome === 'full' || outcome === 'pipeline_full') throw await this.#noSlot(outcome, slot.pipelineId);
    if (outcome === 'busy') throw keyInProgress();
    return outcome === 'ok';
  }

  async #noSlot(outcome: 'full' | 'pipeline_full', pipelineId: string): Promise<WaybillError> {
    const { reads } = this.#options.store;
    const { queueSize, maxWaiting } = this.#limitsOf(pipelineId);
    return outcome === 'full' || maxWaiting === null
      ? queueFull(queueSize, estimatedWaitSeconds(await reads.pace(null)))
      : pipelineFull(pipelineId, maxWaiting, estimatedWaitSeconds(await reads.pace(pipelineId)));
  }

  #limitsOf(pipelineId: string): SlotLimits {
    const { queueSize, maxWaitingOf } = this.#options;
    return { queueSize, maxWaiting: maxWaitingOf(pipelineId) };
  }

  #requireOpen(): void {
    if (this.#phase !== 'open') throw shuttingDown();
  }

  #refuseIfClosed(): void {
    if (this.#phase === 'closed') throw shuttingDown();
  }
}

function replayed(known: Replay): AcceptedRun {
  if (known.outcome === 'conflict') throw keyConflict();
  return { record: known.record, replayed: true, position: known.position };
}

function uploadSwept(): WaybillError {
  const text = 'the queue was unreachable for too long, so the upload was cancelled';
  return new WaybillError('queue_unavailable', text, { hint: 'try again' });
}
