import { retryAfterSeconds } from '../queue/pace.ts';
import { pipelineFull, queueFull } from '../queue/refusals.ts';
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
