import type { Clock } from '../../core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';
import type { LastSuccess, RunQuery } from '../queue/job-queue.ts';
import { isRerunnable, jobAgain, type KeepLimits, type NewRun } from '../queue/kept-bundles.ts';
import { pageGone } from '../queue/refusals.ts';
import { newestOfAll, RunLine, RunWaiters } from '../queue/run-changes.ts';
import { PageOfRuns, type RunPage } from '../queue/run-filter.ts';
import { type DeliveryNote, type RunRecord, withNote } from '../queue/run-record.ts';
import { afterFailure, dueRun, hasSamePlace, type RetriesOf, supersededRun } from '../queue/run-retry.ts';
import {
  acceptedRun,
  cancelledRun,
  failedRun,
  finishedRun,
  progressedRun,
  queuedRun,
  returnedRun,
  startedRun,
} from '../queue/run-transitions.ts';
import { Bundles, Retention } from './bundles.ts';
import type { Journal, KeptRun } from './journal.ts';
import { RunFeed } from './memory-feed.ts';

// A run is failed after this many processes died while running it. Crashes and power failures at random times
// rarely hit one run so often, but a bundle that crashes the process does. Within minutes the limit is
// higher, because a person or a supervisor may be killing the process repeatedly.
const maxBegun = 20;
const maxBegunAtOnce = 100;
const atOnceMs = 600_000;

const fresh = { arrival: 0, kept: null, undo: null, isInterrupted: false };

/** An accepted run, until its retention ends. Only the book modifies it. */
export interface Run extends KeptRun {
  /** Ordinal number among all runs. */
  arrival: number;
  /**
   * Resolves once the run is durable; rejects if it was not accepted in the end. null if it needs no wait.
   */
  kept: Promise<void> | null;
  /** Undoes the acceptance's effect on the run that it repeats; null if it is not a rerun. */
  undo: (() => void) | null;
  /** It was stopped so that the next process continues it. */
  isInterrupted: boolean;
}

export interface RunBookOptions {
  clock: Clock;
  log: Log;
  journal: Journal;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten, before `onExpire`. */
  onForget: (run: Run) => void;
  /** How failed runs are retried. */
  retries: RetriesOf;
  /**
   * Called before the outcome of a try, or the end of a run that waits for its next try, is recorded. `next`
   * is the run's new record.
   */
  onOutcome: (job: PublishJob, next: RunRecord) => void;
  /** Called for a run that is failed because too many processes died while running it. */
  onGivenUp: (job: PublishJob, error: WaybillError) => void;
  /** Called once when a finished run is forgotten. The job's staged directory can then be removed. */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when a job no longer needs its staged files but its record is kept. Default: no-op. */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged. Default: as long as their records. */
  keep?: KeepLimits;
}

/**
 * The records of all runs, and the only code that changes them. The order of calls is `accept`, `start`,
 * `progress`, then `finish`, `fail`, `cancel` or `giveBack`. It is forgotten when its retention ends. Every
 * change except progress goes to the journal.
 */
export class RunBook {
  readonly #options: RunBookOptions;
  readonly #runs = new Map<string, Run>();
  /** The same runs by pipeline, in the order of acceptance. */
  readonly #lines = new Map<string, RunLine<Run>>();
  #arrivals = 0;
  readonly #finished: Retention<Run>;
  readonly #waiters = new RunWaiters();
  /** By pipeline. */
  readonly #successes = new Map<string, LastSuccess>();
  #hasRetries = true;
  /** Reports changes to watchers. */
  readonly feed: RunFeed;
  readonly bundles: Bundles<Run>;

  constructor(options: RunBookOptions) {
    const { clock, retentionMs } = options;
    const { keep: limits = { keepMs: retentionMs, maxBundles: Infinity, maxBytes: Infinity } } = options;
    this.#options = options;
    this.feed = new RunFeed(clock);
    this.bundles = new Bundles({
      ...options,
      limits,
      discard: options.discard ?? (async () => undefined),
      onGone: (run) => this.#notRerunnable(run),
    });
    this.#finished = new Retention({ clock, retentionMs, onExpire: (run) => this.#forget(run) });
  }

  /**
   * Restores the runs of earlier processes. Returns the waiting ones in order. A run that was running waits
   * again, or fails if too many processes died while running it.
   */
  restore(): Run[] {
    const { clock, journal, onGivenUp } = this.#options;
    const runs = journal.runs.map((kept): Run => ({ ...kept, ...fresh }));
    const now = clock.now().getTime();
    for (const run of runs) {
      this.#add(run);
      if (run.record.finished_at !== null) continue;
      // The start of the run may not have been stored. It was not before the acceptance.
      run.begunAt ??= run.record.accepted_at;
      this.#change(run, returnedRun(run.record));
      const sinceMs = now - Date.parse(run.begunAt);
      if (run.begun < (sinceMs < atOnceMs ? maxBegunAtOnce : maxBegun)) continue;
      const error = tooManyEnds(run.begun);
      this.fail(run, error);
      onGivenUp(run.job, error);
    }
    const finishedAt = (run: Run): number => Date.parse(run.record.finished_at ?? '');
    const finished = runs.filter(({ record }) => record.finished_at !== null);
    for (const run of finished.sort((a, b) => finishedAt(a) - finishedAt(b))) {
      this.#noteSuccess(run.record);
      this.#finished.keep(run, now - finishedAt(run));
      this.bundles.ended(run, now - finishedAt(run));
    }
    return runs.filter(({ record }) => record.finished_at === null);
  }

  /** Forgets expired runs. Called before reads, so that no expired run is seen. */
  expire(): void {
    this.bundles.expire();
    this.#finished.expire();
  }

  get(runId: string): Run | undefined {
    return this.#runs.get(runId);
  }

  jobs(): PublishJob[] {
    return [...this.#runs.values()].map(({ job }) => job);
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

  /** The newest run of the pipeline, and its last successful one. */
  newestOf(pipelineId: string): { lastRun: RunRecord | null; lastSuccess: LastSuccess | null } {
    const [newest] = this.#lines.get(pipelineId)?.newestFirst() ?? [];
    const lastRun = newest === undefined ? null : structuredClone(newest.record);
    return { lastRun, lastSuccess: this.#successes.get(pipelineId) ?? null };
  }

  /** Resolves when the run is finished or unknown, or when `signal` aborts. */
  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    if (this.#runs.get(runId)?.record.finished_at === null) await this.#waiters.wait(runId, signal);
  }

  /** Adds a queued run; `accepted` is its record before it was queued. */
  accept(
    job: PublishJob,
    { key, position }: Pick<Run, 'key' | 'position'>,
  ): { run: Run; accepted: RunRecord } {
    const { clock, journal } = this.#options;
    const accepted = acceptedRun(job, clock.now());
    const record = queuedRun(accepted, clock.now());
    const bundle = job.staged === null ? 'none' : 'staged';
    const waits = { job, bundle, record, key, position } as const;
    const kept: KeptRun = { ...waits, rerunAs: null, begun: 0, begunAt: null, told: [] };
    const run: Run = { ...kept, ...fresh };
    this.#add(run);
    this.feed.changed(run.record);
    run.kept = journal.accepted(run);
    return { run, accepted };
  }

  /**
   * Queues a run that repeats `old` and takes over its bundle, if any. The journal stores both runs in one
   * step. Returns as `accept`.
   */
  rerun(old: Run, next: NewRun, position: number): { run: Run; accepted: RunRecord } {
    const job = jobAgain(old.job, next);
    const takeBack = this.bundles.handOver(old);
    old.rerunAs = next.runId;
    this.#notRerunnable(old);
    const { run, accepted } = this.accept(job, { key: null, position });
    run.undo = () => {
      if (this.#runs.get(old.job.runId) === undefined) {
        void this.#clear(run, this.#options.onExpire);
        return;
      }
      takeBack();
      old.rerunAs = null;
      this.#change(old, { ...old.record, rerunnable: true });
    };
    return { run, accepted };
  }

  /**
   * Removes a run that could not be stored and so was not accepted. Restores the run that it was to repeat.
   */
  withdraw(run: Run): void {
    this.#remove(run);
    this.#waiters.finished(run.job.runId);
    run.undo?.();
  }

  start(run: Run): void {
    const record = startedRun(run.record, this.#options.clock.now());
    run.begun += 1;
    run.begunAt ??= record.started_at;
    this.#change(run, record);
  }

  progress(run: Run, progress: JobProgress): void {
    const before = run.record;
    run.record = progressedRun(before, progress, this.#options.clock.now());
    this.feed.changed(run.record, before);
  }

  /** The worker returned a result: the run has ended or waits for its next try. `keep` notifies waiters. */
  finish(run: Run, result: JobResult): void {
    this.#tried(run, finishedRun(run.record, result.run, this.#options.clock.now()));
  }

  /** The worker broke: the run has failed or waits for its next try. `keep` notifies waiters. */
  broke(run: Run, error: unknown): void {
    this.#tried(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Fails a run that has not begun. `keep` notifies waiters. */
  fail(run: Run, error: unknown): void {
    this.#end(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Ends a cancelled run; `result` as in `cancelledRun`. `keep` notifies waiters. */
  cancel(run: Run, result: JobResult | null): void {
    const ended = cancelledRun(run.record, result?.run ?? null, this.#options.clock.now());
    // For a waiting run, the caller of `JobQueue.cancel` reports the end.
    if (run.record.status === 'running') this.#options.onOutcome(run.job, ended);
    this.#end(run, ended);
  }

  /** Makes the next try of a waiting run due. */
  makeDue(run: Run): void {
    this.#change(run, dueRun(run.record, this.#options.clock.now()));
  }

  /** Ends a run that waits for its next try, because a newer run has the same place. */
  supersede(run: Run, by: Run): void {
    const ended = supersededRun(run.record, by.job.runId, this.#options.clock.now());
    this.#options.onOutcome(run.job, ended);
    this.#end(run, ended);
  }

  /** The newest run of the same place that was accepted later; undefined if there is none. */
  newerOf(run: Run): Run | undefined {
    const { pipelineId } = run.job;
    const settings = this.#options.retries(pipelineId);
    for (const newer of this.#lines.get(pipelineId)?.newestFirst() ?? []) {
      if (newer === run) return undefined;
      if (newer.kept === null && hasSamePlace(run.job, newer.job, settings)) return newer;
    }
    return undefined;
  }

  /** From now on failed runs are not retried. */
  endRetries(): void {
    this.#hasRetries = false;
  }

  /** Queues the run again for another process. */
  giveBack(run: Run): void {
    run.begun -= 1;
    this.#change(run, returnedRun(run.record));
  }

  /**
   * Records that the event `what` of the run is reported. False if an earlier process or try already reported
   * it.
   */
  tell(runId: string, what: string): boolean {
    const { journal } = this.#options;
    const run = this.#runs.get(runId);
    if (run === undefined) return true;
    if (run.told.includes(what)) return false;
    run.told.push(what);
    journal.changed(run);
    return true;
  }

  /** Records the state of a delivery, also after the run's end. */
  noteDelivery(runId: string, note: DeliveryNote): void {
    const run = this.#runs.get(runId);
    const deliveries = run === undefined ? null : withNote(run.record, note);
    if (run !== undefined && deliveries !== null) this.#change(run, { ...run.record, ...deliveries });
  }

  /** Begins the retention of an ended run. Removes its bundle unless the run can be repeated. */
  keep(run: Run): void {
    this.#finished.keep(run);
    this.#waiters.finished(run.job.runId);
    this.bundles.ended(run);
  }

  /** Stops forgetting runs and ends all waits. Resolves once no `onExpire` call is in progress. */
  async close(): Promise<void> {
    for (const runId of this.#waiters.runIds) this.#waiters.finished(runId);
    this.feed.close();
    await Promise.all([this.bundles.close(), this.#finished.close()]);
  }

  /** Applies the record at the end of a try. */
  #tried(run: Run, ended: RunRecord): void {
    if (run.isInterrupted) {
      this.#end(run, ended);
      return;
    }
    const next = ended.status === 'failed' && this.#hasRetries ? this.#afterFailure(run, ended) : ended;
    this.#options.onOutcome(run.job, next);
    if (next.status !== 'queued') {
      this.#end(run, next);
      return;
    }
    run.begun = 0;
    this.#change(run, next);
  }

  #afterFailure(run: Run, failed: RunRecord): RunRecord {
    const { clock, retries } = this.#options;
    const now = clock.now();
    const next = afterFailure(failed, now, retries(run.job.pipelineId));
    const newer = next === failed ? undefined : this.newerOf(run);
    return newer === undefined ? next : supersededRun(failed, newer.job.runId, now);
  }

  #end(run: Run, record: RunRecord): void {
    this.#change(run, { ...record, rerunnable: isRerunnable(run.job, record) });
  }

  #add(run: Run): void {
    const { runId, pipelineId } = run.job;
    this.#runs.set(runId, run);
    const line = this.#lines.get(pipelineId) ?? new RunLine();
    this.#lines.set(pipelineId, line);
    run.arrival = line.push(run, this.#arrivals++);
  }

  #remove(run: Run): void {
    const { runId, pipelineId } = run.job;
    this.#runs.delete(runId);
    this.#lines.get(pipelineId)?.remove(run.arrival);
    this.feed.forgotten(runId);
    this.#options.journal.forgotten(run);
  }

  #change(run: Run, record: RunRecord): void {
    const before = run.record;
    run.record = record;
    // A run that ended earlier can change, too. Only its end may make it the last success.
    if (before.finished_at === null) this.#noteSuccess(record);
    this.feed.changed(record, before);
    this.#options.journal.changed(run);
  }

  #noteSuccess({ run_id, pipeline_id, status, finished_at }: RunRecord): void {
    if (status === 'succeeded' && finished_at !== null)
      this.#successes.set(pipeline_id, { run_id, finished_at });
  }

  #notRerunnable(run: Run): void {
    if (run.record.rerunnable) this.#change(run, { ...run.record, rerunnable: false });
    else this.#options.journal.changed(run);
  }

  /** Never rejects. */
  #forget(run: Run): Promise<void> {
    const { onForget, onExpire } = this.#options;
    this.#remove(run);
    this.bundles.forgotten(run);
    onForget(run);
    return this.#clear(run, onExpire);
  }

  /** Never rejects. */
  async #clear({ job }: Run, clear: (job: PublishJob) => Promise<void>): Promise<void> {
    const { log } = this.#options;
    await clear(job).catch((error: unknown) =>
      log.error({ run_id: job.runId, err: error }, 'an expired run could not be cleared away'),
    );
  }
}

function tooManyEnds(ends: number): WaybillError {
  return new WaybillError('worker_failed', `the daemon ended ${ends} times while it published this bundle`, {
    hint: "look into the log and the system's for what ended it, then upload the bundle again",
  });
}
