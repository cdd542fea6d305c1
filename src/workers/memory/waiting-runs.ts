import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { pauseOf } from '../queue/run-retry.ts';

interface Place<T> {
  /** Ordinal number of the arrival, over all pipelines. */
  arrival: number;
  item: T;
}

/**
 * Waiting items, with one queue per pipeline. The pipelines take turns, so that a busy one does not delay the
 * others. `take` examines only the heads of the queues, so its cost does not depend on the number of items.
 */
export class WaitingLine<T> {
  readonly #lines = new Map<string, Place<T>[]>();
  /** The number of the last turn of each pipeline. */
  readonly #turns = new Map<string, number>();
  #turn = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Number of the pipeline's waiting items. */
  lengthOf(pipelineId: string): number {
    return this.#lines.get(pipelineId)?.length ?? 0;
  }

  /** The pipeline's first item. */
  firstOf(pipelineId: string): T | undefined {
    return this.#lines.get(pipelineId)?.[0]?.item;
  }

  /** @param arrival Its place among all items; earlier arrivals come first. */
  push(pipelineId: string, item: T, arrival: number): void {
    const line = this.#lines.get(pipelineId) ?? [];
    this.#lines.set(pipelineId, line);
    const index = line.findLastIndex((place) => place.arrival < arrival) + 1;
    line.splice(index, 0, { arrival, item });
    this.#length += 1;
  }

  /**
   * Takes the first item of the free pipeline whose last turn is the oldest; undefined if none is free. Among
   * pipelines without a turn so far, the earliest arrival comes first.
   */
  take(isFree: (pipelineId: string) => boolean): T | undefined {
    let first: { pipelineId: string; line: Place<T>[]; place: Place<T>; turn: number } | undefined;
    for (const [pipelineId, line] of this.#lines) {
      const place = line[0] as Place<T>;
      const turn = this.#turns.get(pipelineId) ?? 0;
      const isEarlier =
        first === undefined ||
        turn < first.turn ||
        (turn === first.turn && place.arrival < first.place.arrival);
      if (isEarlier && isFree(pipelineId)) first = { pipelineId, line, place, turn };
    }
    if (first === undefined) return undefined;
    this.#turn += 1;
    this.#turns.set(first.pipelineId, this.#turn);
    first.line.shift();
    if (first.line.length === 0) this.#lines.delete(first.pipelineId);
    this.#length -= 1;
    return first.place.item;
  }

  /** Removes one item; false if it is not waiting. */
  remove(pipelineId: string, item: T): boolean {
    const line = this.#lines.get(pipelineId);
    const index = line?.findIndex((place) => place.item === item) ?? -1;
    if (line === undefined || index === -1) return false;
    line.splice(index, 1);
    if (line.length === 0) this.#lines.delete(pipelineId);
    this.#length -= 1;
    return true;
  }

  /** Whether `take` would find an item. */
  has(isFree: (pipelineId: string) => boolean): boolean {
    return [...this.#lines.keys()].some(isFree);
  }

  /** Removes and returns all items in the order of arrival. */
  takeAll(): T[] {
    const places = [...this.#lines.values()].flat().sort((a, b) => a.arrival - b.arrival);
    this.#lines.clear();
    this.#length = 0;
    return places.map(({ item }) => item);
  }
}

interface RetryLineOptions<Run> {
  clock: Clock;
  /** Called for each run whose next try is due; the run has left the line. */
  onDue: (run: Run) => void;
}

/** Runs that wait for their next try, with one timer for the earliest of them. */
export class RetryLine<Run extends { record: RunRecord }> {
  readonly #options: RetryLineOptions<Run>;
  readonly #runs = new Set<Run>();
  #timer: Timer | undefined;

  constructor(options: RetryLineOptions<Run>) {
    this.#options = options;
  }

  get length(): number {
    return this.#runs.size;
  }

  /** The runs of one pipeline. */
  of(pipelineId: string): Run[] {
    return [...this.#runs].filter(({ record }) => record.pipeline_id === pipelineId);
  }

  add(run: Run): void {
    this.#runs.add(run);
    this.#wake();
  }

  /** Returns whether the run was in the line. */
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

  /** From now on no run becomes due. */
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
