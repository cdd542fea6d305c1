import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { retryDelayMs } from '../queue/run-retry.ts';

interface QueuedItem<T> {
  /** The item's number in the order of acceptance, across all pipelines. */
  sequence: number;
  item: T;
}

/**
 * Waiting items in one queue per pipeline. The pipelines take turns, so that a busy one does not hold up the
 * others. `take` only looks at the first item of each queue, so the total number of items does not affect its
 * speed.
 */
export class FairQueue<T> {
  readonly #queues = new Map<string, QueuedItem<T>[]>();
  /** The number of each pipeline's last turn. */
  readonly #turns = new Map<string, number>();
  #turn = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The number of items that the pipeline has waiting. */
  lengthOf(pipelineId: string): number {
    return this.#queues.get(pipelineId)?.length ?? 0;
  }

  firstOf(pipelineId: string): T | undefined {
    return this.#queues.get(pipelineId)?.[0]?.item;
  }

  /** @param sequence The item's place among all items. The lowest number goes first. */
  push(pipelineId: string, item: T, sequence: number): void {
    const queue = this.#queues.get(pipelineId) ?? [];
    this.#queues.set(pipelineId, queue);
    const index = queue.findLastIndex((queued) => queued.sequence < sequence) + 1;
    queue.splice(index, 0, { sequence, item });
    this.#length += 1;
  }

  /**
   * Removes and returns the first item of whichever free pipeline has been waiting for its turn the longest.
   * Pipelines that have never had a turn are ordered by the sequence numbers of their items. Returns
   * undefined if no pipeline is free.
   */
  take(isFree: (pipelineId: string) => boolean): T | undefined {
    let first:
      { pipelineId: string; queue: QueuedItem<T>[]; queued: QueuedItem<T>; turn: number } | undefined;
    for (const [pipelineId, queue] of this.#queues) {
      const queued = queue[0] as QueuedItem<T>;
      const turn = this.#turns.get(pipelineId) ?? 0;
      const isEarlier =
        first === undefined ||
        turn < first.turn ||
        (turn === first.turn && queued.sequence < first.queued.sequence);
      if (isEarlier && isFree(pipelineId)) first = { pipelineId, queue, queued, turn };
    }
    if (first === undefined) return undefined;
    this.#turn += 1;
    this.#turns.set(first.pipelineId, this.#turn);
    first.queue.shift();
    if (first.queue.length === 0) this.#queues.delete(first.pipelineId);
    this.#length -= 1;
    return first.queued.item;
  }

  /** Removes an item. Returns false if it is not waiting. */
  remove(pipelineId: string, item: T): boolean {
    const queue = this.#queues.get(pipelineId);
    const index = queue?.findIndex((queued) => queued.item === item) ?? -1;
    if (queue === undefined || index === -1) return false;
    queue.splice(index, 1);
    if (queue.length === 0) this.#queues.delete(pipelineId);
    this.#length -= 1;
    return true;
  }

  /** Reports whether `take` would return an item. */
  has(isFree: (pipelineId: string) => boolean): boolean {
    return [...this.#queues.keys()].some(isFree);
  }

  /** Removes and returns all items, ordered by sequence number. */
  takeAll(): T[] {
    const queued = [...this.#queues.values()].flat().sort((a, b) => a.sequence - b.sequence);
    this.#queues.clear();
    this.#length = 0;
    return queued.map(({ item }) => item);
  }
}

interface RetryQueueOptions<Run> {
  clock: Clock;
  /** Called for each run whose next attempt is due, after removing it from the queue. */
  onDue: (run: Run) => void;
}

/** Runs that are waiting for their next attempt. A single timer goes off when the earliest one is due. */
export class RetryQueue<Run extends { record: RunRecord }> {
  readonly #options: RetryQueueOptions<Run>;
  readonly #runs = new Set<Run>();
  #timer: Timer | undefined;

  constructor(options: RetryQueueOptions<Run>) {
    this.#options = options;
  }

  get length(): number {
    return this.#runs.size;
  }

  runsOf(pipelineId: string): Run[] {
    return [...this.#runs].filter(({ record }) => record.pipeline_id === pipelineId);
  }

  add(run: Run): void {
    this.#runs.add(run);
    this.#wake();
  }

  /** Removes a run. Returns true if it was in the queue. */
  remove(run: Run): boolean {
    const wasThere = this.#runs.delete(run);
    if (wasThere) this.#wake();
    return wasThere;
  }

  /** Removes and returns all runs, in the order in which they were added. */
  takeAll(): Run[] {
    const all = [...this.#runs];
    this.#runs.clear();
    this.close();
    return all;
  }

  /** Stops the timer, so that no more runs become due. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wake(): void {
    const { clock, onDue } = this.#options;
    this.close();
    if (this.#runs.size === 0) return;
    const pauses = [...this.#runs].map(({ record }) => retryDelayMs(record, clock.now()));
    const fire = (): void => {
      const due = [...this.#runs].filter(({ record }) => retryDelayMs(record, clock.now()) === 0);
      for (const run of due) this.#runs.delete(run);
      this.#wake();
      for (const run of due) onDue(run);
    };
    this.#timer = clock.timeout(Math.min(...pauses), fire, { unref: true });
  }
}
