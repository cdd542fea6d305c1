import { waitAtMost } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { PublishJob, RunOrigin } from '../queue/job.ts';
import type {
  AcceptedRun,
  AdmissionRequest,
  Cancellation,
  JobProcessor,
  JobQueue,
  Pause,
  PipelineOverview,
  QueueDepth,
  RunQuery,
} from '../queue/job-queue.ts';
import { type QueueOptions, withDefaults } from '../queue/queue-options.ts';
import { nothingToRetry, runFinished, runUnknown } from '../queue/refusals.ts';
import type { RunObserver } from '../queue/run-observer.ts';
import type { DeliveryNote, RunRecord } from '../queue/run-record.ts';
import { isCancelled } from '../queue/run-transitions.ts';
import type { Triggers } from '../queue/trigger.ts';
import { Admissions } from './admissions.ts';
import { type Journal, noJournal } from './journal.ts';
import { memoryTriggers } from './memory-triggers.ts';
import { RunRegistry } from './run-registry.ts';
import { RunScheduler } from './run-scheduler.ts';
import { Keys, Slots } from './slots.ts';

interface MemoryQueueOptions extends QueueOptions {
  /** Stores every change to a run. By default, nothing is stored. */
  journal?: Journal;
  /** Called when a run from the journal fails because too many processes died while executing it. */
  onAbandoned?: (job: PublishJob, error: WaybillError) => void;
}

export interface MemoryQueue extends JobQueue {
  /**
   * Records that an event of the run is being passed on to the notifiers. Returns false if an earlier process
   * or attempt has already done that, in which case the caller must not do it again.
   */
  markReported(runId: string, event: string): boolean;
  /** The jobs of all known runs. */
  jobs(): Iterable<PublishJob>;
  /** Reports whether the run is being aborted so that the next process can continue it. */
  isInterrupted(runId: string): boolean;
}

/** Creates a queue for a single process. After a restart, only what is in the journal is left. */
export function memoryQueue(options: MemoryQueueOptions): MemoryQueue {
  return new InProcessQueue(options);
}

/**
 * A queue for a single process. It puts together `Admissions` (slots and keys), the registry of runs, and the
 * `RunScheduler`. Runs of a paused pipeline do not start, and closing the queue does not wait for them.
 */
class InProcessQueue implements MemoryQueue {
  readonly triggers: Triggers;
  readonly #options: Required<MemoryQueueOptions>;
  readonly #runs: RunRegistry;
  readonly #scheduler: RunScheduler;
  readonly #admissions: Admissions;
  #onIdle: (() => void) | undefined;
  #closing: Promise<{ unfinished: string[] }> | undefined;

  constructor(options: MemoryQueueOptions) {
    const context = { journal: noJournal, onAbandoned: () => undefined, ...withDefaults(options) };
    const onIdle = (): void => this.#notifyIdle();
    const keys = new Keys();
    const runs = new RunRegistry({
      ...context,
      onForget: ({ key, job }) => {
        if (key !== null) keys.forget(key.scope, job.runId);
      },
    });
    const scheduler = new RunScheduler({ ...context, runs, onEnd: onIdle });
    const slots = new Slots(context, scheduler);
    this.#options = context;
    this.#runs = runs;
    this.#scheduler = scheduler;
    this.#admissions = new Admissions({ runs, scheduler, slots, keys, onIdle });
    for (const { key, job } of context.journal.runs)
      if (key !== null) keys.use(key.scope, job.runId, key.contentDigest);
    for (const run of runs.restore()) scheduler.add(run);
    this.triggers = memoryTriggers({
      journal: context.journal,
      loadOf: (id) => ({ ...scheduler.countsOf(id), isPaused: scheduler.pauses.has(id) }),
      start: (job) => this.#admissions.startTriggered(job),
    });
  }

  readonly reserve = (request: AdmissionRequest) => this.#admissions.reserve(request);
  readonly watch = (onChange: () => void) => this.#runs.table.feed.watch(onChange);
  readonly markReported = (runId: string, event: string) => this.#runs.table.markReported(runId, event);
  readonly jobs = () => this.#runs.table.jobs();
  readonly isInterrupted = (runId: string) => this.#runs.get(runId)?.isInterrupted ?? false;

  async find(runId: string): Promise<RunRecord | undefined> {
    this.#runs.expire();
    return structuredClone(this.#runs.get(runId)?.record);
  }

  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    this.#runs.expire();
    await this.#runs.untilFinished(runId, signal);
  }

  async list(pipelineIds: readonly string[], query: RunQuery) {
    this.#runs.expire();
    return this.#runs.table.list(pipelineIds, query);
  }

  async overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]> {
    this.#runs.expire();
    return pipelineIds.map((id) => ({ ...this.#scheduler.countsOf(id), ...this.#runs.table.newestOf(id) }));
  }

  async waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]> {
    return pipelineIds.map((id) => this.#scheduler.waitingSince(id));
  }

  async depth(): Promise<QueueDepth> {
    const { waiting: queued, running } = this.#scheduler;
    return { reserved: this.#admissions.reserved, queued, running };
  }

  async bundleUsage() {
    this.#runs.expire();
    return this.#runs.bundles.usage;
  }

  async start(process: JobProcessor, observer?: RunObserver): Promise<void> {
    this.#scheduler.start(process, observer);
  }

  async pause(pipelineId: string, reason: string | null): Promise<Pause> {
    const pause = this.#scheduler.pause(pipelineId, reason);
    // The queue may be closing. It does not have to wait for the paused runs anymore.
    this.#notifyIdle();
    return pause;
  }

  async resume(pipelineId: string): Promise<boolean> {
    return this.#scheduler.resume(pipelineId);
  }

  async pauses(): Promise<ReadonlyMap<string, Pause>> {
    return new Map(this.#scheduler.pauses);
  }

  async cancel(runId: string): Promise<Cancellation> {
    this.#runs.expire();
    const run = this.#runs.get(runId);
    if (run === undefined) throw runUnknown();
    const outcome = this.#scheduler.cancel(run) ?? 'repeated';
    if (outcome === 'repeated' && !isCancelled(run.record)) throw runFinished(run.record.status);
    return { outcome, record: structuredClone(run.record) };
  }

  async rerun(runId: string, newRunId: string, origin: RunOrigin = {}): Promise<AcceptedRun> {
    return this.#admissions.rerun(runId, { runId: newRunId, origin });
  }

  async noteDelivery(runId: string, note: DeliveryNote): Promise<void> {
    this.#runs.table.noteDelivery(runId, note);
  }

  async retryNow(runId: string): Promise<RunRecord> {
    this.#runs.expire();
    const run = this.#runs.get(runId);
    if (run === undefined) throw runUnknown();
    if (run.record.finished_at !== null) throw nothingToRetry(run.record.status);
    this.#scheduler.retryNow(run);
    return structuredClone(run.record);
  }

  drain(): void {
    this.#admissions.drain();
  }

  close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    return (this.#closing ??= this.#shutDown(timeoutMs));
  }

  #notifyIdle(): void {
    if (this.#isIdle()) this.#onIdle?.();
  }

  #isIdle(): boolean {
    return this.#admissions.isIdle && this.#scheduler.isIdle;
  }

  async #shutDown(timeoutMs: number): Promise<{ unfinished: string[] }> {
    const { clock, journal } = this.#options;
    this.#admissions.drain();
    if (journal.isDurable) this.#scheduler.stopStarting();
    else this.#scheduler.stopRetries();
    if (!this.#isIdle()) {
      const idle = new Promise<void>((resolve) => (this.#onIdle = resolve));
      await waitAtMost(clock, timeoutMs, idle);
    }
    this.#admissions.close();
    const stopped = new WaybillError('aborted', 'the daemon stopped before the run was done', {
      hint: 'upload the bundle again',
    });
    const undone = await this.#scheduler.close(stopped);
    await this.#runs.close();
    return { unfinished: undone.map(({ job }) => job.runId) };
  }
}
