import { randomUUID } from 'node:crypto';
import { newArchiveName } from '../../core/bundle/shared-archive.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishJob } from '../queue/job.ts';
import type { AcceptedRun, Admission, AdmissionRequest } from '../queue/job-queue.ts';
import { jobAgain, type NewRun } from '../queue/kept-bundles.ts';
import {
  admissionEnded,
  bundleGone,
  keyConflict,
  keyInProgress,
  pipelineFull,
  queueFull,
  retryAfterSeconds,
  runNotFinished,
  runUnknown,
  shuttingDown,
} from '../queue/refusals.ts';
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
  /** Called once the run is in the store. */
  onAccepted: (pipelineId: string) => Promise<void>;
}

/** The uploads that this process is receiving. */
export interface Admissions {
  reserve(request: AdmissionRequest): Promise<Admission>;
  /** As `JobQueue.rerun`. */
  rerun(runId: string, next: NewRun): Promise<AcceptedRun>;
  /** Whether new uploads are accepted. */
  isOpen(): boolean;
  drain(): void;
  /** Resolves when no upload is being received. */
  idle(): Promise<void>;
  /** Stops accepting, and releases every slot. */
  close(): Promise<void>;
}

/** A slot of this process. */
interface HeldSlot {
  slot: Slot;
  /** Sets the upload's name in shared staging, which is renewed with the slot from now on. */
  stagedAs: (name: string) => void;
  /** Called before the slot is released. Redis refuses a renewal that arrives later (`renew.lua`). */
  stopRenewing: () => void;
}

/**
 * A slot and its key carry the id of the request that holds them. They expire unless its process renews them,
 * so a dead API blocks them for at most `workerTimeoutMs`. The name in shared staging expires later, because
 * the bytes of the upload are lost with it.
 */
export function admissions(options: AdmissionsOptions): Admissions {
  const { store, log } = options;
  let phase: 'open' | 'draining' | 'closed' = 'open';
  const open = new Map<string, { held: HeldSlot; stop: () => void }>();
  let onIdle: (() => void) | undefined;

  async function reserve({ pipelineId, idempotency }: AdmissionRequest): Promise<Admission> {
    if (phase !== 'open') throw shuttingDown();
    const key = scopeKey(pipelineId, idempotency);
    const rerunFailed = idempotency?.rerunFailed ?? false;
    const slot: Slot = { id: randomUUID(), pipelineId, key, rerunFailed };
    let hasSlot = await takeSlot(slot);

    let staged: string | null = null;
    const renewal = options.clock.every(options.workerTimeoutMs / 3, () => {
      if (hasSlot) void store.renew(slot, staged).catch(() => undefined);
    });
    const stop = (): void => {
      renewal.cancel();
      open.delete(slot.id);
      if (open.size === 0) onIdle?.();
    };
    let ended = false;
    const end = (): boolean => {
      const first = !ended;
      ended = true;
      return first;
    };
    const held: HeldSlot = {
      slot,
      stagedAs: (name) => (staged = name),
      stopRenewing: () => renewal.cancel(),
    };
    open.set(slot.id, { held, stop });
    return {
      accept: async (job, contentDigest) => {
        if (!end()) throw admissionEnded();
        try {
          const known = await replayOf(held, contentDigest);
          if (known !== null) return known;
          // The first run with this key was forgotten or failed during this upload.
          hasSlot ||= await takeSlot(slot);
          return await accept(held, job, contentDigest);
        } catch (error) {
          await giveBack(held);
          throw error;
        } finally {
          stop();
        }
      },
      release: async () => {
        if (!end()) return;
        await giveBack(held);
        stop();
      },
    };
  }

  /** False if the key was used: nothing will be queued, and no slot was taken. */
  async function takeSlot(slot: Slot): Promise<boolean> {
    const outcome = await store.reserve(slot, limitsOf(slot.pipelineId));
    if (outcome === 'full' || outcome === 'pipeline_full') throw await noSlot(outcome, slot.pipelineId);
    if (outcome === 'busy') throw keyInProgress();
    return outcome === 'ok';
  }

  const limitsOf = (pipelineId: string): { queueSize: number; maxWaiting: number | null } => ({
    queueSize: options.queueSize,
    maxWaiting: options.maxWaitingOf?.(pipelineId) ?? null,
  });

  async function noSlot(outcome: 'full' | 'pipeline_full', pipelineId: string): Promise<WaybillError> {
    const { queueSize, maxWaiting } = limitsOf(pipelineId);
    return outcome === 'full' || maxWaiting === null
      ? queueFull(queueSize, retryAfterSeconds(await store.pace(null)))
      : pipelineFull(pipelineId, maxWaiting, retryAfterSeconds(await store.pace(pipelineId)));
  }

  async function rerun(runId: string, next: NewRun): Promise<AcceptedRun> {
    if (phase !== 'open') throw shuttingDown();
    const [old, found] = [await store.jobOf(runId), await store.find(runId)];
    if (old === null || found === undefined) throw runUnknown();
    const job = jobAgain(old, next);
    const record = acceptedRun(job, options.clock.now());
    const waiting = queuedRun(record, options.clock.now());
    const answer = await store.rerun(old, job, waiting, limitsOf(job.pipelineId));
    switch (answer.outcome) {
      case 'ok':
        await options.onAccepted(job.pipelineId);
        return { record, replayed: false, position: answer.position };
      case 'replay':
        return { record: answer.record, replayed: true, position: answer.position };
      case 'unknown':
        throw runUnknown();
      case 'unfinished':
        throw runNotFinished(found.status);
      case 'gone':
        throw bundleGone();
      case 'full':
      case 'pipeline_full':
        throw await noSlot(answer.outcome, job.pipelineId);
    }
  }

  /** Called before the bundle is shared, because a replay does not need it. null if no run has the key. */
  async function replayOf(held: HeldSlot, digest: Digest): Promise<AcceptedRun | null> {
    if (phase === 'closed') throw shuttingDown();
    const known = await store.replay(held.slot, digest);
    if (known === null) return null;
    await giveBack(held);
    return answerReplay(known);
  }

  async function accept(held: HeldSlot, job: PublishJob, digest: Digest): Promise<AcceptedRun> {
    const { slot } = held;
    const name = job.staged === null ? null : newArchiveName();
    if (name !== null) {
      await store.stage(name);
      held.stagedAs(name);
    }
    const shared = name === null ? job : await options.shared.share(job, name);
    if (isClosed()) throw shuttingDown();
    const record = acceptedRun(job, options.clock.now());
    const waiting = queuedRun(record, options.clock.now());
    held.stopRenewing();
    // If this throws, the run may or may not have been accepted. The bundle is kept: either the run needs it,
    // or it is swept as unwanted.
    const answer = await store.accept(slot, shared, waiting, digest, name);
    switch (answer.outcome) {
      case 'ok':
        await options.onAccepted(job.pipelineId);
        return { record, replayed: false, position: answer.position };
      case 'swept':
        throw new WaybillError(
          'queue_unavailable',
          'the queue was away for so long that the upload was given up',
          {
            hint: 'try again',
          },
        );
      case 'busy':
        await unshare(name);
        throw keyInProgress();
      case 'conflict':
      case 'replay':
        await unshare(name);
        return answerReplay(answer);
    }
  }

  const isClosed = (): boolean => phase === 'closed';

  /** If it fails, the name is swept later. */
  async function unshare(name: string | null): Promise<void> {
    if (name === null) return;
    await options.shared
      .remove(name)
      .catch((error: unknown) => log.warn({ err: error }, 'a shared bundle could not be removed now'));
  }

  /** If it fails, the slot and the key expire. */
  const giveBack = ({ slot, stopRenewing }: HeldSlot): Promise<void> => {
    stopRenewing();
    return store.release(slot).catch(() => undefined);
  };

  return {
    reserve,
    rerun,
    isOpen: () => phase === 'open',
    drain: () => {
      if (phase === 'open') phase = 'draining';
    },
    idle: async () => {
      if (open.size > 0) await new Promise<void>((resolve) => (onIdle = resolve));
    },
    close: async () => {
      phase = 'closed';
      const left = [...open.values()];
      for (const { stop } of left) stop();
      await Promise.all(left.map(({ held }) => giveBack(held)));
    },
  };
}

function answerReplay(known: Replay): AcceptedRun {
  if (known.outcome === 'replay') return { record: known.record, replayed: true, position: known.position };
  throw keyConflict();
}
