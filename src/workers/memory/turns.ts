import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { JobResult } from '../job.ts';
import type { JobProcessor } from '../queue.ts';
import { unobserved, waitedSeconds, type RunObserver } from '../run-observer.ts';
import type { Run, RunBook } from './run-book.ts';
import { WaitingLine } from './waiting-line.ts';

export interface TurnsOptions {
  clock: Clock;
  log: Log;
  /** Jobs at once. */
  maxConcurrency: number;
  runs: RunBook;
  /** Called when a run has ended. */
  onEnd: () => void;
}

interface Active {
  run: Run;
  abort: AbortController;
  done: Promise<void>;
}

/**
 * Whose turn it is. A run is `waiting` (in the order of acceptance), then `active` (at most one a pipeline,
 * at most `maxConcurrency` in all), then finished. Whenever a run arrives or leaves `active`, `pump` starts
 * the first waiting ones whose pipeline is free; a run that waits for its pipeline does not delay those of
 * others.
 */
export class Turns {
  readonly #options: TurnsOptions;
  #processor: JobProcessor | undefined;
  #observer = unobserved;
  #isClosed = false;
  readonly #waiting = new WaitingLine<Run>();
  readonly #active = new Map<string, Active>();

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get running(): number {
    return this.#active.size;
  }

  /** Whether nothing runs, and nothing will unless it is added. */
  get isIdle(): boolean {
    return this.#active.size === 0 && (this.#waiting.length === 0 || this.#processor === undefined);
  }

  start(process: JobProcessor, observer: RunObserver = unobserved): void {
    this.#processor = process;
    this.#observer = observer;
    this.#pump();
  }

  add(run: Run): void {
    this.#waiting.push(run.job.pipelineId, run);
    this.#pump();
  }

  /**
   * Starts nothing any more, fails with `reason` what still waits, and stops what runs with it. Resolves with
   * the runs that did not succeed for that.
   */
  async close(reason: Error): Promise<Run[]> {
    const { runs } = this.#options;
    this.#isClosed = true;
    const neverStarted = this.#waiting.takeAll();
    for (const run of neverStarted) {
      runs.fail(run, reason);
      runs.keep(run);
    }
    const interrupted = [...this.#active.values()];
    for (const { abort } of interrupted) abort.abort(reason);
    await Promise.all(interrupted.map(({ done }) => done));
    const undone = interrupted.map(({ run }) => run).filter(({ record }) => record.status !== 'succeeded');
    return [...undone, ...neverStarted];
  }

  #pump(): void {
    if (this.#processor === undefined || this.#isClosed) return;
    while (this.#active.size < this.#options.maxConcurrency) {
      const next = this.#waiting.take((pipelineId) => !this.#active.has(pipelineId));
      if (next === undefined) return;
      const abort = new AbortController();
      const done = this.#run(next, abort.signal, this.#processor);
      this.#active.set(next.job.pipelineId, { run: next, abort, done });
    }
  }

  /** Never rejects. Calls the processor only after `active` has the run. */
  async #run(run: Run, signal: AbortSignal, process: JobProcessor): Promise<void> {
    const { clock, log, runs, onEnd } = this.#options;
    runs.start(run);
    const { pipelineId } = run.job;
    this.#observer.started({ pipelineId, waitedSeconds: waitedSeconds(run.record) });
    const since = clock.monotonic();
    let result: JobResult | null = null;
    try {
      await Promise.resolve();
      result = await process(run.job, { signal, onProgress: (progress) => runs.progress(run, progress) });
      runs.finish(run, result);
    } catch (error) {
      log.error({ run_id: run.job.runId, err: error }, 'run failed');
      runs.fail(run, error);
    }
    const seconds = (clock.monotonic() - since) / 1000;
    this.#observer.finished({ pipelineId, seconds, succeeded: run.record.status === 'succeeded', result });
    this.#active.delete(pipelineId);
    runs.keep(run);
    this.#pump();
    onEnd();
  }
}
