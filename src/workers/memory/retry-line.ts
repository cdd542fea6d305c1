import type { Clock, Timer } from '../../core/lib/clock.ts';
import { pauseOf } from '../queue/run-retry.ts';
import type { RunRecord } from '../queue/run-record.ts';

export interface RetryLineOptions<Run> {
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

  /** Those of one pipeline. */
  of(pipelineId: string): Run[] {
    return [...this.#runs].filter(({ record }) => record.pipeline_id === pipelineId);
  }

  add(run: Run): void {
    this.#runs.add(run);
    this.#wake();
  }

  /** Whether it was there. */
  remove(run: Run): boolean {
    const wasThere = this.#runs.delete(run);
    if (wasThere) this.#wake();
    return wasThere;
  }

  /** Takes all, in the order in which they came. */
  takeAll(): Run[] {
    const all = [...this.#runs];
    this.#runs.clear();
    this.close();
    return all;
  }

  /** No run is due any more. */
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
