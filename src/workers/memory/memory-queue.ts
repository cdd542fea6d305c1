import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishJob, RunOrigin } from '../queue/job.ts';
import type {
  AcceptedRun,
  Admission,
  AdmissionRequest,
  Cancellation,
  JobProcessor,
  JobQueue,
  KeptBundles,
  Pause,
  PipelineOverview,
  QueueDepth,
  RunQuery,
} from '../queue/job-queue.ts';
import type { KeepLimits } from '../queue/kept-bundles.ts';
import { nothingToRetry, runFinished, runUnknown } from '../queue/refusals.ts';
import type { RunWatch } from '../queue/run-changes.ts';
import type { RunPage } from '../queue/run-filter.ts';
import type { RunObserver } from '../queue/run-observer.ts';
import type { DeliveryNote, RunRecord } from '../queue/run-record.ts';
import { noRetries, type RetriesOf } from '../queue/run-retry.ts';
import { isCancelled } from '../queue/run-transitions.ts';
import type { Triggers } from '../queue/trigger.ts';
import { Admissions } from './admissions.ts';
import { type Journal, noJournal } from './journal.ts';
import { triggersOf } from './memory-triggers.ts';
import { RunRegistry } from './run-registry.ts';
import { RunScheduler } from './run-scheduler.ts';
import { Keys, type SlotLimits, Slots } from './slots.ts';

export interface MemoryQueueOptions extends SlotLimits {
  clock: Clock;
  log: Log;
  /** The maximum number of concurrent jobs. */
  maxConcurrency: number;
  /** How long finished runs are kept, in milliseconds. */
  retentionMs: number;
  /**
   * Called once when a finished run is deleted. After that, the job's staged directory is no longer needed.
   */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when a job's staged files are no longer needed but its record is kept. Default: no-op. */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long the bundles of finished runs stay staged. Default: as long as their records. */
  keep?: KeepLimits;
  /** How failed runs are retried. Default: never. */
  retries?: RetriesOf;
  /**
   * Called before the outcome of an attempt is recorded, and when a run ends while waiting for its next
   * attempt. `next` is the record that is about to be saved.
   */
  onOutcome?: (job: PublishJob, next: RunRecord) => void;
  /** Stores every change to a run. By default, nothing is stored. */
  journal?: Journal;
  /** Called when a run from the journal fails because too many processes died while executing it. */
  onGivenUp?: (job: PublishJob, error: WaybillError) => void;
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
  return new QueueOfOneProcess(options);
}

/**
 * A queue for a single process. It puts together `Admissions` (slots and keys), the registry of runs, and the
 * `RunScheduler`. Runs of a paused pipeline don't start, and closing the queue doesn't wait for them.
 */
class QueueOfOneProcess implements MemoryQueue {
  readonly #options: MemoryQueueOptions & { journal: Journal; retries: RetriesOf };
  readonly #runs: RunRegistry;
  readonly #scheduler: RunScheduler;
  readonly #admissions: Admissions;
  readonly triggers: Triggers;
  #onIdle: (() => void) | undefined;
  #closing: Promise<{ unfinished: string[] }> | undefined;

  constructor(options: MemoryQueueOptions) {
    const { journal = noJournal, retries = noRetries } = options;
    const { onGivenUp = () => undefined, onOutcome = () => undefined } = options;
    this.#options = { ...options, journal, retries };
    const keys = new Keys();
    this.#runs = new RunRegistry({
      ...this.#options,
      onGivenUp,
      onOutcome,
      onForget: ({ key, job }) => {
        if (key !== null) keys.forget(key.scope, job.runId);
      },
    });
    this.#scheduler = new RunScheduler({
      ...this.#options,
      runs: this.#runs,
      onEnd: () => this.#notifyIdle(),
    });
    this.#admissions = new Admissions({
      ...{ runs: this.#runs, scheduler: this.#scheduler, slots: new Slots(options, this.#scheduler), keys },
      onIdle: () => this.#notifyIdle(),
    });
    for (const { key, job } of journal.runs)
      if (key !== null) keys.use(key.scope, job.runId, key.contentDigest);
    for (const run of this.#runs.restore()) this.#scheduler.add(run);
    this.triggers = triggersOf({
      journal,
      stateOf: (id) => ({ ...this.#scheduler.of(id), isPaused: this.#scheduler.pauses.has(id) }),
      start: (job) => this.#admissions.startTriggered(job),
    });
  }

  async reserve(request: AdmissionRequest): Promise<Admission> {
    return this.#admissions.reserve(request);
  }

  async find(runId: string): Promise<RunRecord | undefined> {
    this.#runs.expire();
    return structuredClone(this.#runs.get(runId)?.record);
  }

  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    this.#runs.expire();
    await this.#runs.untilFinished(runId, signal);
  }

  async list(pipelineIds: readonly string[], query: RunQuery): Promise<RunPage> {
    this.#runs.expire();
    return this.#runs.table.list(pipelineIds, query);
  }

  async overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]> {
    this.#runs.expire();
    return pipelineIds.map((id) => ({ ...this.#scheduler.of(id), ...this.#runs.table.newestOf(id) }));
  }

  async waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]> {
    return pipelineIds.map((id) => this.#scheduler.waitingSince(id));
  }

  watch(onChange: () => void): RunWatch {
    return this.#runs.table.feed.watch(onChange);
  }

  async depth(): Promise<QueueDepth> {
    return {
      reserved: this.#admissions.reserved,
      queued: this.#scheduler.waiting,
      running: this.#scheduler.running,
    };
  }

  async kept(): Promise<KeptBundles> {
    this.#runs.expire();
    return this.#runs.bundles.kept;
  }

  async start(process: JobProcessor, observer?: RunObserver): Promise<void> {
    this.#scheduler.start(process, observer);
  }

  async pause(pipelineId: string, reason: string | null): Promise<Pause> {
    const pause = this.#scheduler.pause(pipelineId, reason);
    // The queue may be closing. It doesn't have to wait for the paused runs anymore.
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

  markReported(runId: string, event: string): boolean {
    return this.#runs.table.markReported(runId, event);
  }

  jobs(): Iterable<PublishJob> {
    return this.#runs.table.jobs();
  }

  isInterrupted(runId: string): boolean {
    return this.#runs.get(runId)?.isInterrupted ?? false;
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
    if (journal.outlives) this.#scheduler.hold();
    else this.#scheduler.endRetries();
    if (!this.#isIdle())
      await new Promise<void>((resolve) => {
        const timeout = clock.timeout(timeoutMs, resolve);
        this.#onIdle = () => {
          timeout.cancel();
          resolve();
        };
      });
    this.#admissions.close();

    const stopped = new WaybillError('aborted', 'the daemon stopped before the run was done', {
      hint: 'upload the bundle again',
    });
    const undone = await this.#scheduler.close(stopped);
    await this.#runs.close();
    return { unfinished: undone.map(({ job }) => job.runId) };
  }
}
