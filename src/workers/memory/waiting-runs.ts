import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { pauseOf } from '../queue/run-retry.ts';

interface QueuedItem<T> {
  /** Order of acceptance across all pipelines. */
  sequence: number;
  item: T;
}

/**
 * Holds waiting items, with one queue per pipeline. The pipelines take turns, so that a busy one does not
 * delay the others. `take` examines only the heads of the queues, so its cost does not depend on the number
 * of items.
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

  /** Number of waiting items of the pipeline. */
  lengthOf(pipelineId: string): number {
    return this.#queues.get(pipelineId)?.length ?? 0;
  }

  /** Returns the pipeline's first item. */
  firstOf(pipelineId: string): T | undefined {
    return this.#queues.get(pipelineId)?.[0]?.item;
  }

  /** @param sequence The item's place among all items. Lower numbers come first. */
  push(pipelineId: string, item: T, sequence: number): void {
    const queue = this.#queues.get(pipelineId) ?? [];
    this.#queues.set(pipelineId, queue);
    const index = queue.findLastIndex((queued) => queued.sequence < sequence) + 1;
    queue.splice(index, 0, { sequence, item });
    this.#length += 1;
  }

  /**
   * Takes the first item of the free pipeline whose last turn was longest ago. Returns undefined if no
   * pipeline is free. Among pipelines that have not had a turn yet, the lowest sequence number comes first.
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

  /** Removes one item. Returns false if it is not waiting. */
  remove(pipelineId: string, item: T): boolean {
    const queue = this.#queues.get(pipelineId);
    const index = queue?.findIndex((queued) => queued.item === item) ?? -1;
    if (queue === undefined || index === -1) return false;
    queue.splice(index, 1);
    if (queue.length === 0) this.#queues.delete(pipelineId);
    this.#length -= 1;
    return true;
  }

  /** Reports whether `take` would find an item. */
  has(isFree: (pipelineId: string) => boolean): boolean {
    return [...this.#queues.keys()].some(isFree);
  }

  /** Removes and returns all items in order of their sequence numbers. */
  takeAll(): T[] {
    const queued = [...this.#queues.values()].flat().sort((a, b) => a.sequence - b.sequence);
    this.#queues.clear();
    this.#length = 0;
    return queued.map(({ item }) => item);
  }
}

interface RetryQueueOptions<Run> {
  clock: Clock;
  /** Called for each run whose next try is due. The run has already left the queue. */
  onDue: (run: Run) => void;
}

/** Holds runs that are waiting for their next try, with one timer for the earliest of them. */
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

  /** Returns the runs of one pipeline. */
  of(pipelineId: string): Run[] {
    return [...this.#runs].filter(({ record }) => record.pipeline_id === pipelineId);
  }

  add(run: Run): void {
    this.#runs.add(run);
    this.#wake();
  }

  /** Returns true if the run was queued. */
  remove(run: Run): boolean {
    const wasThere = this.#runs.delete(run);
    if (wasThere) this.#wake();
    return wasThere;
  }

  /** Removes and returns all runs in the order in which they were added. */
  takeAll(): Run[] {
    const all = [...this.#runs];
    this.#runs.clear();
    this.close();
    return all;
  }

  /** Stops making runs due. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wake(): void {
    const { clock, onDue } = this.#options;
    this.close();
    if (this.#runs.size === 0) return;
    const pauses = [...this.#runs].map(({ record }) => pauseOf(record, clock.now()));
    const fire = (): void => {
      const due = [...this.#runs].filter(({ record }) => pauseOf(record, clock.now()) === 0);
      for (const run of due) this.#runs.delete(run);
      this.#wake();
      for (const run of due) onDue(run);
    };
    this.#timer = clock.timeout(Math.min(...pauses), fire, { unref: true });
  }
}
