import type { Digest } from '../../core/lib/digest.ts';
import type { AdmissionRequest } from '../queue/job-queue.ts';
import { pipelineFull, queueFull, retryAfterSeconds } from '../queue/refusals.ts';
import type { Turns } from './turns.ts';

export interface SlotLimits {
  /** Limit of uploads that are being received or wait for their turn; running ones do not count. */
  queueSize: number;
  /** The same limit for one pipeline; null, as by default: `queueSize` alone. */
  maxWaitingOf?: (pipelineId: string) => number | null;
}

/**
 * Who is being received: uploads that hold a slot, by pipeline, and replays, which need none. `queue_size`
 * and `max_waiting` bound the slots together with the runs that wait.
 */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #turns: Turns;
  readonly #held = new Map<string, number>();
  #all = 0;
  #replays = 0;

  constructor(limits: SlotLimits, turns: Turns) {
    this.#limits = limits;
    this.#turns = turns;
  }

  /** Throws `queue_full` or `pipeline_full`. */
  refuseIfFull(pipelineId: string): void {
    const { queueSize, maxWaitingOf } = this.#limits;
    const turns = this.#turns;
    const all = this.#all + turns.waiting;
    if (all >= queueSize) throw queueFull(queueSize, retryAfterSeconds(turns.pace(null, all)));
    const maxWaiting = maxWaitingOf?.(pipelineId) ?? null;
    const waiting = this.lengthOf(pipelineId) + turns.waitingOf(pipelineId);
    if (maxWaiting === null || waiting < maxWaiting) return;
    throw pipelineFull(pipelineId, maxWaiting, retryAfterSeconds(turns.pace(pipelineId, waiting)));
  }

  /** Slots of all pipelines together. */
  get length(): number {
    return this.#all;
  }

  /** Whether nothing is being received. */
  get isIdle(): boolean {
    return this.#all + this.#replays === 0;
  }

  lengthOf(pipelineId: string): number {
    return this.#held.get(pipelineId) ?? 0;
  }

  /** Returns a function that ends it; its first call returns true, any other does nothing. */
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

/** What an Idempotency-Key counts for, as one string; null for a request without a key. */
export function scopeOf({ pipelineId, idempotency }: AdmissionRequest): string | null {
  return idempotency === undefined ? null : JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
}

/**
 * The Idempotency-Keys in use, by scope. A key is `staging` while its first request is being received, and
 * `used` once that was accepted; a release forgets it, so that the client may try again. It belongs to the
 * last run that was accepted with it and is forgotten with that.
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

  /** From now on the key belongs to this run. */
  use(scope: string, runId: string, contentDigest: Digest): void {
    this.#states.set(scope, { state: 'used', runId, contentDigest });
  }

  /** Forgets the key, unless a run that was started for a failed one has it by now. */
  forget(scope: string, runId: string): void {
    const known = this.#states.get(scope);
    if (known?.state === 'used' && known.runId === runId) this.#states.delete(scope);
  }
}
