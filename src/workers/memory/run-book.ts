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

// As often may the process have ended in the middle of a run before that is given up. Kills and power
// failures at random times do not hit one run so often; a bundle that brings the process down does. Within
// minutes it may be more often: somebody, or something else, may be killing the process all the time.
const maxBegun = 20;
const maxBegunAtOnce = 100;
const atOnceMs = 600_000;

const fresh = { arrival: 0, kept: null, undo: null, isInterrupted: false };

/** A run that was accepted, until its retention is over. Only the book changes it. */
export interface Run extends KeptRun {
  /** Its place among all runs. */
  arrival: number;
  /** Until it can be relied on; rejects if it was not accepted after all. Null if it can be at once. */
  kept: Promise<void> | null;
  /** Makes undone what its acceptance did to the run that it repeats; null if it repeats none. */
  undo: (() => void) | null;
  /** Its turn was broken off for the next process to take it up. */
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
  /** How failed runs are tried again. */
  retries: RetriesOf;
  /**
   * Called before the outcome of a try, or the end of a run that waits for its next one, is recorded: `next`
   * is its record from then on.
   */
  onOutcome: (job: PublishJob, next: RunRecord) => void;
  /** Called for a run that is given up, because too many processes ended while it ran. */
  onGivenUp: (job: PublishJob, error: WaybillError) => void;
  /** Called once when a finished run is forgotten; the job's staged directory can go then. */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when the job needs what is staged no more, while its record stays; by default nothing is done. */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged; by default as long as their records. */
  keep?: KeepLimits;
}

/**
 * The records of all runs, and the only place where one changes: `accept`, `start`, `progress`, then
 * `finish`, `fail`, `cancel` or `giveBack`, and in the end the run is forgotten when its retention is over.
 * Each change but progress goes to the journal.
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
  #hasRetries = true;
  /** For those who watch. */
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
   * Takes up what earlier processes left and returns the runs that wait, in their order. One that was running
   * waits again; it fails if too many processes ended while it ran.
   */
  restore(): Run[] {
    const { clock, journal, onGivenUp } = this.#options;
    const runs = journal.runs.map((kept): Run => ({ ...kept, ...fresh }));
    const now = clock.now().getTime();
    for (const run of runs) {
      this.#add(run);
      if (run.record.finished_at !== null) continue;
      // That it was begun may have been lost with the process; it was not before it was accepted.
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

  /** Forgets what has expired by now; called before anything is looked up, so that none is seen too late. */
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
   * Queues a run that repeats `old`, whose bundle, if there is one, belongs to the new run from now on; with
   * a journal both are written in one step. Returns as `accept`.
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

  /** The run could not be kept, so it was not accepted. What it was to repeat is as it was before. */
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
    run.record = progressedRun(before, progress);
    this.feed.changed(run.record, before);
  }

  /** The worker answered: the run has ended, or waits for its next try. Waiters are notified by `keep`. */
  finish(run: Run, result: JobResult): void {
    this.#tried(run, finishedRun(run.record, result.run, this.#options.clock.now()));
  }

  /** The worker broke: the run has failed, or waits for its next try. Waiters are notified by `keep`. */
  broke(run: Run, error: unknown): void {
    this.#tried(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** The run fails without a turn. Waiters are notified by `keep`. */
  fail(run: Run, error: unknown): void {
    this.#end(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** The run was cancelled; `result` as in `cancelledRun`. Waiters are notified by `keep`. */
  cancel(run: Run, result: JobResult | null): void {
    const ended = cancelledRun(run.record, result?.run ?? null, this.#options.clock.now());
    // The caller of `JobQueue.cancel` reports the end of a run that waited.
    if (run.record.status === 'running') this.#options.onOutcome(run.job, ended);
    this.#end(run, ended);
  }

  /** The next try of a run that waits for it is due. */
  makeDue(run: Run): void {
    this.#change(run, dueRun(run.record, this.#options.clock.now()));
  }

  /** Ends a run that waits for its next try, for the newer run of the same place. */
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

  /** From now on a failed run is not tried again. */
  endRetries(): void {
    this.#hasRetries = false;
  }

  /** The run waits again, for another process. */
  giveBack(run: Run): void {
    run.begun -= 1;
    this.#change(run, returnedRun(run.record));
  }

  /**
   * Notes that `what` of the run is told. False if it was before: by an earlier process, or after an earlier
   * try.
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

  /** What became of a delivery, also after the end of the run. */
  noteDelivery(runId: string, note: DeliveryNote): void {
    const run = this.#runs.get(runId);
    const deliveries = run === undefined ? null : withNote(run.record, note);
    if (run !== undefined && deliveries !== null) this.#change(run, { ...run.record, ...deliveries });
  }

  /** Begins the retention of a run that is finished or failed. Unless it can be repeated, its bundle goes. */
  keep(run: Run): void {
    this.#finished.keep(run);
    this.#waiters.finished(run.job.runId);
    this.bundles.ended(run);
  }

  /** Forgets no more, and ends all waits; resolves when no `onExpire` is under way. */
  async close(): Promise<void> {
    for (const runId of this.#waiters.runIds) this.#waiters.finished(runId);
    this.feed.close();
    await Promise.all([this.bundles.close(), this.#finished.close()]);
  }

  /** The try of a run has ended with this record. */
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
    // A run that had succeeded before changes, too, and is not the last one for that.
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
