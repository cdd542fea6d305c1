import type { Digest } from '../../core/lib/digest.ts';
import type { AdmissionRequest } from '../queue/job-queue.ts';
import type { QueueOptions } from '../queue/queue-options.ts';
import { estimatedWaitSeconds, pipelineFull, queueFull } from '../queue/refusals.ts';
import type { RunScheduler } from './run-scheduler.ts';

type SlotLimits = Pick<Required<QueueOptions>, 'queueSize' | 'maxWaitingOf'>;

/**
 * Counts the uploads in progress: those that occupy a slot, by pipeline, and replays, which do not need one.
 * `queue_size` and `max_waiting` limit the number of slots and waiting runs taken together.
 */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #scheduler: RunScheduler;
  readonly #held = new Map<string, number>();
  #all = 0;
  #replays = 0;

  constructor(limits: SlotLimits, scheduler: RunScheduler) {
    this.#limits = limits;
    this.#scheduler = scheduler;
  }

  /** Throws `queue_full` or `pipeline_full` if there is no free slot. */
  refuseIfFull(pipelineId: string): void {
    const { queueSize, maxWaitingOf } = this.#limits;
    const scheduler = this.#scheduler;
    const all = this.#all + scheduler.waiting;
    if (all >= queueSize) throw queueFull(queueSize, estimatedWaitSeconds(scheduler.load(null, all)));
    const maxWaiting = maxWaitingOf(pipelineId);
    const waiting = this.lengthOf(pipelineId) + scheduler.waitingOf(pipelineId);
    if (maxWaiting === null || waiting < maxWaiting) return;
    throw pipelineFull(pipelineId, maxWaiting, estimatedWaitSeconds(scheduler.load(pipelineId, waiting)));
  }

  /** The number of slots in use, across all pipelines. */
  get length(): number {
    return this.#all;
  }

  /** True if no uploads are in progress. */
  get isIdle(): boolean {
    return this.#all + this.#replays === 0;
  }

  lengthOf(pipelineId: string): number {
    return this.#held.get(pipelineId) ?? 0;
  }

  /**
   * Counts an upload. Returns a function that ends it. Only its first call has an effect, and only that one
   * returns true.
   */
  take(pipelineId: string, { isReplay }: { isReplay: boolean }): () => boolean {
    this.#add(pipelineId, isReplay, 1);
    let open = true;
    return () => {
      if (!open) return false;
      open = false;
      this.#add(pipelineId, isReplay, -1);
      return true;
    };
  }

  #add(pipelineId: string, isReplay: boolean, count: 1 | -1): void {
    if (isReplay) {
      this.#replays += count;
      return;
    }
    this.#all += count;
    const slotCount = this.lengthOf(pipelineId) + count;
    if (slotCount === 0) this.#held.delete(pipelineId);
    else this.#held.set(pipelineId, slotCount);
  }
}

export interface UsedKey {
  state: 'used';
  runId: string;
  contentDigest: Digest;
}

type KeyState = { state: 'staging' } | UsedKey;

/** Combines the Idempotency-Key and its scope into one string. Returns null if the request has no key. */
export function scopeOf({ pipelineId, idempotency }: AdmissionRequest): string | null {
  return idempotency === undefined ? null : JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
}

/**
 * The Idempotency-Keys in use, by scope. During the first upload with a key, its state is `staging`. If the
 * upload is released, the key is deleted, so that the client can try again. Once the upload is accepted, the
 * state becomes `used`. The key then belongs to the last run that was accepted with it, and is deleted along
 * with that run.
 */
export class Keys {
  readonly #states = new Map<string, KeyState>();

  get(scope: string | null): KeyState | undefined {
    return scope === null ? undefined : this.#states.get(scope);
  }

  /** Marks the key as `staging`. */
  take(scope: string): void {
    this.#states.set(scope, { state: 'staging' });
  }

  /** Deletes a key whose state is `staging`. */
  release(scope: string): void {
    this.#states.delete(scope);
  }

  /** Marks the key as used by this run. */
  use(scope: string, runId: string, contentDigest: Digest): void {
    this.#states.set(scope, { state: 'used', runId, contentDigest });
  }

  /** Deletes the key, unless it now belongs to the rerun of a failed run. */
  forget(scope: string, runId: string): void {
    const known = this.#states.get(scope);
    if (known?.state === 'used' && known.runId === runId) this.#states.delete(scope);
  }
}
