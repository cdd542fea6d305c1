import type { Clock } from '../../core/lib/clock.ts';
import type { PublishJob } from '../queue/job.ts';
import type { LastSuccess, RunQuery } from '../queue/job-queue.ts';
import { pageGone } from '../queue/refusals.ts';
import { newestOfAll, OrderedRuns } from '../queue/run-changes.ts';
import { PageOfRuns, type RunPage } from '../queue/run-filter.ts';
import { type DeliveryNote, type RunRecord, withNote } from '../queue/run-record.ts';
import type { Journal, StoredRun } from './journal.ts';
import { RunFeed } from './memory-feed.ts';

/** A run, from its acceptance to the end of its retention period. Only the run registry may modify it. */
export interface Run extends StoredRun {
  /** The run's number, in the order in which runs were accepted. */
  sequence: number;
  /**
   * Resolves once the run is on disk, or rejects if it ended up not being accepted. null if there is nothing
   * to wait for.
   */
  kept: Promise<void> | null;
  /** If this run is a rerun, undoes what its acceptance changed about the earlier run. Otherwise null. */
  undo: (() => void) | null;
  /** True if the run was aborted so that the next process can continue it. */
  isInterrupted: boolean;
}

/**
 * All known runs, by id and by pipeline, in the order in which they were accepted. Passes on every change to
 * the journal and to watchers.
 */
export class RunTable {
  readonly #journal: Journal;
  readonly #runs = new Map<string, Run>();
  /** The same runs, by pipeline. */
  readonly #byPipeline = new Map<string, OrderedRuns<Run>>();
  #nextSequence = 0;
  /** Keyed by pipeline. */
  readonly #successes = new Map<string, LastSuccess>();
  /** Notifies watchers of changes. */
  readonly feed: RunFeed;

  constructor(clock: Clock, journal: Journal) {
    this.#journal = journal;
    this.feed = new RunFeed(clock);
  }

  /** Adds a run, without writing it to the journal. */
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
    // Finished runs may still change, but that does not make them the last success.
    if (before.finished_at === null) this.noteSuccess(record);
    this.feed.publish(record, before);
    this.#journal.saveChange(run);
  }

  /** If the run succeeded, records it as its pipeline's last success. */
  noteSuccess({ run_id, pipeline_id, status, finished_at }: RunRecord): void {
    if (status === 'succeeded' && finished_at !== null)
      this.#successes.set(pipeline_id, { run_id, finished_at });
  }

  /** Records how a delivery went. The run may already have finished. */
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
    this.#journal.saveChange(run);
    return true;
  }

  remove(run: Run): void {
    const { runId, pipelineId } = run.job;
    this.#runs.delete(runId);
    this.#byPipeline.get(pipelineId)?.remove(run.sequence);
    this.feed.remove(runId);
    this.#journal.deleteRun(run);
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
      if (page.add(record)) break;
    return structuredClone(page.result());
  }

  newestOf(pipelineId: string): { lastRun: RunRecord | null; lastSuccess: LastSuccess | null } {
    const [newest] = this.#byPipeline.get(pipelineId)?.newestFirst() ?? [];
    const lastRun = newest === undefined ? null : structuredClone(newest.record);
    return { lastRun, lastSuccess: this.#successes.get(pipelineId) ?? null };
  }

  /**
   * Returns the newest matching run among those that the same pipeline accepted after `run`, or undefined.
   */
  newestAfter(run: Run, matches: (newer: Run) => boolean): Run | undefined {
    for (const newer of this.#byPipeline.get(run.job.pipelineId)?.newestFirst() ?? []) {
      if (newer === run) return undefined;
      if (matches(newer)) return newer;
    }
    return undefined;
  }
}
