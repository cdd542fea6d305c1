import type { Clock } from '../../core/clock.ts';
import { errorRecord } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { JobProgress, JobResult, PublishJob } from '../job.ts';
import type { LastSuccess, RunQuery } from '../queue.ts';
import { pageGone } from '../refusals.ts';
import { PageOfRuns, type RunPage } from '../records/page-of-runs.ts';
import type { RunRecord } from '../run-record.ts';
import {
  acceptedRun,
  cancelledRun,
  failedRun,
  finishedRun,
  isCancelled,
  progressedRun,
  queuedRun,
  startedRun,
} from '../run-transitions.ts';
import { RunWaiters } from '../run-waiters.ts';
import { Retention } from './retention.ts';
import { RunFeed } from './run-feed.ts';
import { newestOfAll, RunLine } from '../records/run-line.ts';

/** A run that was accepted, until its retention is over. Only the book changes it. */
export interface Run {
  readonly job: PublishJob;
  record: RunRecord;
  /** The scope of the Idempotency-Key, which is forgotten with the run. */
  readonly scope: string | null;
  /** Its place in the line of its pipeline, when it was accepted. */
  readonly position: number;
  /** Its place among all runs. */
  arrival: number;
}

export interface RunBookOptions {
  clock: Clock;
  log: Log;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten, before `onExpire`. */
  onForget: (run: Run) => void;
  /** Called once when a finished run is forgotten; the job's staged directory can go then. */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when the job needs what is staged no more, while its record stays; by default nothing is done. */
  discard?: (job: PublishJob) => Promise<void>;
}

/**
 * The records of all runs, and the only place where one changes: `accept`, `start`, `progress`, `finish` or
 * `fail`, and in the end the run is forgotten when its retention is over.
 */
export class RunBook {
  readonly #options: RunBookOptions;
  readonly #runs = new Map<string, Run>();
  /** The same, of each pipeline in the order of acceptance. */
  readonly #lines = new Map<string, RunLine<Run>>();
  #arrivals = 0;
  readonly #finished: Retention<Run>;
  readonly #waiters = new RunWaiters();
  /** By pipeline. */
  readonly #successes = new Map<string, LastSuccess>();
  /** For those who watch. */
  readonly feed: RunFeed;

  constructor(options: RunBookOptions) {
    const { clock, retentionMs } = options;
    this.#options = options;
    this.feed = new RunFeed(clock);
    this.#finished = new Retention({ clock, retentionMs, onExpire: (run) => this.#forget(run) });
  }

  /** Forgets what has expired by now; called before anything is looked up, so that none is seen too late. */
  expire(): void {
    this.#finished.expire();
  }

  get(runId: string): Run | undefined {
    return this.#runs.get(runId);
  }

  /** As `JobQueue.list`. */
  list(pipelineIds: readonly string[], { limit, before, ...filter }: RunQuery): RunPage {
    const from = before === null || before === undefined ? undefined : this.#runs.get(before);
    if (from === undefined ? typeof before === 'string' : !pipelineIds.includes(from.job.pipelineId))
      throw pageGone();
    const page = new PageOfRuns(limit, filter);
    const lines = pipelineIds.flatMap((id) => this.#lines.get(id) ?? []);
    for (const { record } of newestOfAll(lines, ({ arrival }) => arrival, from?.arrival))
      if (page.isFull(record)) break;
    return structuredClone(page.page());
  }

  /** The run of the pipeline that was accepted last, and the one that succeeded last. */
  newestOf(pipelineId: string): { lastRun: RunRecord | null; lastSuccess: LastSuccess | null } {
    const [newest] = this.#lines.get(pipelineId)?.newestFirst() ?? [];
    const lastRun = newest === undefined ? null : structuredClone(newest.record);
    return { lastRun, lastSuccess: this.#successes.get(pipelineId) ?? null };
  }

  /** Resolves when the run is finished or unknown, or when `signal` aborts. */
  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    if (this.#runs.get(runId)?.record.finished_at === null) await this.#waiters.wait(runId, signal);
  }

  /** The run is queued from now on; `accepted` is its record of the moment before. */
  accept(
    job: PublishJob,
    { scope, position }: Pick<Run, 'scope' | 'position'>,
  ): { run: Run; accepted: RunRecord } {
    const { clock } = this.#options;
    const accepted = acceptedRun(job, clock.now());
    const run: Run = { job, record: queuedRun(accepted, clock.now()), scope, position, arrival: 0 };
    this.#runs.set(job.runId, run);
    const line = this.#lines.get(job.pipelineId) ?? new RunLine();
    this.#lines.set(job.pipelineId, line);
    run.arrival = line.push(run, this.#arrivals++);
    this.feed.changed(run.record);
    return { run, accepted };
  }

  start(run: Run): void {
    this.#change(run, startedRun(run.record, this.#options.clock.now()));
  }

  progress(run: Run, progress: JobProgress): void {
    this.#change(run, progressedRun(run.record, progress));
  }

  /** The worker answered. Those who wait hear of it with `keep`. */
  finish(run: Run, result: JobResult): void {
    this.#change(run, finishedRun(run.record, result.run, this.#options.clock.now()));
  }

  /** The worker broke, or the run never had its turn. Those who wait hear of it with `keep`. */
  fail(run: Run, error: unknown): void {
    this.#change(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Somebody cancelled it; `result` as in `cancelledRun`. Those who wait hear of it with `keep`. */
  cancel(run: Run, result: JobResult | null): void {
    this.#change(run, cancelledRun(run.record, result?.run ?? null, this.#options.clock.now()));
  }

  /** Begins the retention of a run that is finished or failed. What is staged for a cancelled one goes. */
  keep(run: Run): void {
    this.#finished.keep(run);
    this.#waiters.finished(run.job.runId);
    if (isCancelled(run.record)) void this.#clear(run, this.#options.discard);
  }

  /** Forgets no more; resolves when no `onExpire` is under way. */
  close(): Promise<void> {
    this.feed.close();
    return this.#finished.close();
  }

  #change(run: Run, record: RunRecord): void {
    const before = run.record;
    run.record = record;
    const { run_id, pipeline_id, status, finished_at } = record;
    if (status === 'succeeded' && finished_at !== null)
      this.#successes.set(pipeline_id, { run_id, finished_at });
    this.feed.changed(record, before);
  }

  /** Never rejects. */
  #forget(run: Run): Promise<void> {
    const { job, arrival } = run;
    const { onForget, onExpire } = this.#options;
    this.#runs.delete(job.runId);
    this.#lines.get(job.pipelineId)?.remove(arrival);
    this.feed.forgotten(job.runId);
    onForget(run);
    return this.#clear(run, onExpire);
  }

  /** Never rejects. */
  async #clear({ job }: Run, clear: ((job: PublishJob) => Promise<void>) | undefined): Promise<void> {
    const { log } = this.#options;
    await clear?.(job).catch((error: unknown) =>
      log.error({ run_id: job.runId, err: error }, 'an expired run could not be cleared away'),
    );
  }
}
