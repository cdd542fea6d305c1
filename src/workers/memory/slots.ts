import type { Digest } from '../../core/lib/digest.ts';
import type { AdmissionRequest } from '../queue/job-queue.ts';
import { pipelineFull, queueFull, retryAfterSeconds } from '../queue/refusals.ts';
import type { RunScheduler } from './run-scheduler.ts';

export interface SlotLimits {
  /** Maximum number of uploads in progress and waiting runs. Running ones do not count. */
  queueSize: number;
  /** The same limit for one pipeline. If null, only `queueSize` applies. Default: null. */
  maxWaitingOf?: (pipelineId: string) => number | null;
}

/**
 * The uploads in progress: those that hold a slot, by pipeline, and replays, which do not need one.
 * `queue_size` and `max_waiting` limit the total of slots and waiting runs.
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

  /** Throws `queue_full` or `pipeline_full`. */
  refuseIfFull(pipelineId: string): void {
    const { queueSize, maxWaitingOf } = this.#limits;
    const scheduler = this.#scheduler;
    const all = this.#all + scheduler.waiting;
    if (all >= queueSize) throw queueFull(queueSize, retryAfterSeconds(scheduler.load(null, all)));
    const maxWaiting = maxWaitingOf?.(pipelineId) ?? null;
    const waiting = this.lengthOf(pipelineId) + scheduler.waitingOf(pipelineId);
    if (maxWaiting === null || waiting < maxWaiting) return;
    throw pipelineFull(pipelineId, maxWaiting, retryAfterSeconds(scheduler.load(pipelineId, waiting)));
  }

  /** Number of slots in use across all pipelines. */
  get length(): number {
    return this.#all;
  }

  /** True if no upload is in progress. */
  get isIdle(): boolean {
    return this.#all + this.#replays === 0;
  }

  lengthOf(pipelineId: string): number {
    return this.#held.get(pipelineId) ?? 0;
  }

  /** Returns a function that ends the upload. Its first call returns true, and later calls do nothing. */
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
    const left = this.lengthOf(pipelineId) + count;
    if (left === 0) this.#held.delete(pipelineId);
    else this.#held.set(pipelineId, left);
  }
}

export interface UsedKey {
  state: 'used';
  runId: string;
  contentDigest: Digest;
}

type KeyState = { state: 'staging' } | UsedKey;

/** Returns the Idempotency-Key with its scope as one string, or null if the request has no key. */
export function scopeOf({ pipelineId, idempotency }: AdmissionRequest): string | null {
  return idempotency === undefined ? null : JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
}

/**
 * The Idempotency-Keys in use, by scope. A key is `staging` during its first upload and `used` after
 * acceptance. Releasing the upload removes it, so that the client can retry. A used key belongs to the last
 * run accepted with it, and is forgotten with that run.
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

  /** Forgets a key that is `staging`. */
  release(scope: string): void {
    this.#states.delete(scope);
  }

  /** Assigns the key to this run. */
  use(scope: string, runId: string, contentDigest: Digest): void {
    this.#states.set(scope, { state: 'used', runId, contentDigest });
  }

  /** Forgets the key, unless a rerun of a failed run has taken it over. */
  forget(scope: string, runId: string): void {
    const known = this.#states.get(scope);
    if (known?.state === 'used' && known.runId === runId) this.#states.delete(scope);
  }
}
