import type { Clock } from '../../core/lib/clock.ts';
import type { PublishJob } from '../queue/job.ts';
import type { LastSuccess, RunQuery } from '../queue/job-queue.ts';
import { pageGone } from '../queue/refusals.ts';
import { newestOfAll, OrderedRuns } from '../queue/run-changes.ts';
import { PageOfRuns, type RunPage } from '../queue/run-filter.ts';
import { type DeliveryNote, type RunRecord, withNote } from '../queue/run-record.ts';
import type { Journal, StoredRun } from './journal.ts';
import { RunFeed } from './memory-feed.ts';

/** An accepted run until its retention period ends. Only the run registry modifies it. */
export interface Run extends StoredRun {
  /** Sequence number among all runs. */
  sequence: number;
  /**
   * Resolves once the run is durable. Rejects if it was not accepted after all. null if there is nothing to
   * wait for.
   */
  kept: Promise<void> | null;
  /** Undoes the acceptance's effect on the run that this one repeats. null if this is not a rerun. */
  undo: (() => void) | null;
  /** True if the run was stopped so that the next process can continue it. */
  isInterrupted: boolean;
}

/**
 * The known runs, by id and by pipeline, in order of acceptance. Passes each change to the journal and to
 * watchers.
 */
export class RunTable {
  readonly #journal: Journal;
  readonly #runs = new Map<string, Run>();
  /** The same runs, grouped by pipeline. */
  readonly #byPipeline = new Map<string, OrderedRuns<Run>>();
  #nextSequence = 0;
  /** Keyed by pipeline. */
  readonly #successes = new Map<string, LastSuccess>();
  /** Reports changes to watchers. */
  readonly feed: RunFeed;

  constructor(clock: Clock, journal: Journal) {
    this.#journal = journal;
    this.feed = new RunFeed(clock);
  }

  /** Does not write to the journal. */
  add(run: Run): void {
    const { runId, pipelineId } = run.job;
    this.#runs.set(runId, run);
    const line = this.#byPipeline.get(pipelineId) ?? new OrderedRuns();
    this.#byPipeline.set(pipelineId, line);
    run.sequence = line.push(run, this.#nextSequence++);
  }

  change(run: Run, record: RunRecord): void {
    const before = run.record;
    run.record = record;
    // A run that ended earlier can also change. Only its end may make it the last success.
    if (before.finished_at === null) this.noteSuccess(record);
    this.feed.changed(record, before);
    this.#journal.changed(run);
  }

  /** Records a successful run as the last success of its pipeline. */
  noteSuccess({ run_id, pipeline_id, status, finished_at }: RunRecord): void {
    if (status === 'succeeded' && finished_at !== null)
      this.#successes.set(pipeline_id, { run_id, finished_at });
  }

  /** Records the state of a delivery, even after the run has ended. */
  noteDelivery(runId: string, note: DeliveryNote): void {
    const run = this.#runs.get(runId);
    const deliveries = run === undefined ? null : withNote(run.record, note);
    if (run !== undefined && deliveries !== null) this.change(run, { ...run.record, ...deliveries });
  }

  /** See `MemoryQueue.markReported`. */
  markReported(runId: string, event: string): boolean {
    const run = this.#runs.get(runId);
    if (run === undefined) return true;
    if (run.reported.includes(event)) return false;
    run.reported.push(event);
    this.#journal.changed(run);
    return true;
  }

  remove(run: Run): void {
    const { runId, pipelineId } = run.job;
    this.#runs.delete(runId);
    this.#byPipeline.get(pipelineId)?.remove(run.sequence);
    this.feed.forgotten(runId);
    this.#journal.forgotten(run);
  }

  get(runId: string): Run | undefined {
    return this.#runs.get(runId);
  }

  jobs(): PublishJob[] {
    return [...this.#runs.values()].map(({ job }) => job);
  }

  /** See `JobQueue.list`. */
  list(pipelineIds: readonly string[], { limit, before, ...filter }: RunQuery): RunPage {
    const from = before === null || before === undefined ? undefined : this.#runs.get(before);
    if (from === undefined ? typeof before === 'string' : !pipelineIds.includes(from.job.pipelineId))
      throw pageGone();
    const page = new PageOfRuns(limit, filter);
    const lines = pipelineIds.flatMap((id) => this.#byPipeline.get(id) ?? []);
    for (const { record } of newestOfAll(lines, ({ sequence }) => sequence, from?.sequence))
      if (page.isFull(record)) break;
    return structuredClone(page.page());
  }

  /** Returns the pipeline's newest run and its last successful one. */
  newestOf(pipelineId: string): { lastRun: RunRecord | null; lastSuccess: LastSuccess | null } {
    const [newest] = this.#byPipeline.get(pipelineId)?.newestFirst() ?? [];
    const lastRun = newest === undefined ? null : structuredClone(newest.record);
    return { lastRun, lastSuccess: this.#successes.get(pipelineId) ?? null };
  }

  /** Returns the newest later run of the same pipeline that matches. Returns undefined if there is none. */
  newestAfter(run: Run, matches: (newer: Run) => boolean): Run | undefined {
    for (const newer of this.#byPipeline.get(run.job.pipelineId)?.newestFirst() ?? []) {
      if (newer === run) return undefined;
      if (matches(newer)) return newer;
    }
    return undefined;
  }
}
