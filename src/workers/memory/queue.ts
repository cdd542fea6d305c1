import type { Clock } from '../../core/clock.ts';
import { digestOf, type Digest } from '../../core/digest.ts';
import { WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { PublishJob } from '../job.ts';
import type { KeepLimits } from '../kept-bundles.ts';
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
} from '../queue.ts';
import {
  admissionEnded,
  bundleGone,
  keyConflict,
  keyInProgress,
  runFinished,
  runNotFinished,
  runUnknown,
  shuttingDown,
} from '../refusals.ts';
import type { RunObserver } from '../run-observer.ts';
import type { RunRecord } from '../run-record.ts';
import { isCancelled } from '../run-transitions.ts';
import type { RunPage } from '../records/page-of-runs.ts';
import type { RunWatch } from '../records/run-watch.ts';
import type { Triggers } from '../trigger.ts';
import { noJournal, type Journal } from './journal.ts';
import { Keys, scopeOf, type UsedKey } from './keys.ts';
import { RunBook, type Run } from './run-book.ts';
import { Slots, type SlotLimits } from './slots.ts';
import { triggersOf } from './triggers.ts';
import { Turns } from './turns.ts';

export interface MemoryQueueOptions extends SlotLimits {
  clock: Clock;
  log: Log;
  /** Jobs at once. */
  maxConcurrency: number;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten; the job's staged directory can go then. */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when the job needs what is staged no more, while its record stays; by default nothing is done. */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged; by default as long as their records. */
  keep?: KeepLimits;
  /** Where transitions are written; by default nowhere. */
  journal?: Journal;
  /** Called for a run of the journal that is given up, because too many processes ended while it ran. */
  onGivenUp?: (job: PublishJob, error: WaybillError) => void;
}

export interface MemoryQueue extends JobQueue {
  /**
   * Notes that `what` of a run is told to the notifiers. False if it must not be told: it was before the
   * process ended that began the run.
   */
  tell(runId: string, what: string): boolean;
  /** Those of all runs that are known. */
  jobs(): Iterable<PublishJob>;
  /** Whether the run is being broken off, for the next process to take it up. */
  isInterrupted(runId: string): boolean;
}

// Only what was accepted under a key is compared.
const noContent = digestOf('');

interface Acceptance {
  scope: string | null;
  rerunFailed: boolean;
  contentDigest: Digest;
  hasNoSlot: boolean;
}

/** The queue of one process. Nothing of it survives that process but what the journal keeps. */
export function memoryQueue(options: MemoryQueueOptions): MemoryQueue {
  return new QueueOfOneProcess(options);
}

/**
 * An upload holds a *slot* from `reserve` until `accept` or `release`. Once accepted it is a *run*: it has
 * its record in the book until its retention is over, and takes its turn. In between, as long as the journal
 * has not made it durable, it holds the slot still, and whoever repeats the request waits, too.
 *
 * A key is checked twice: `reserve` refuses only `staging`, because it knows no content to compare with;
 * `accept` compares the contents. A request with a `used` key queues nothing and so needs no slot, unless the
 * first run expires before it is accepted, or has failed and is to be rerun.
 *
 * Of a pipeline that is paused no run begins, and none is waited for at the end.
 *
 * The phases are `open`, `draining` (no new slots; all that was reserved or accepted goes on) and `closed`
 * (nothing starts any more).
 */
class QueueOfOneProcess implements MemoryQueue {
  readonly #options: MemoryQueueOptions & { journal: Journal };
  #phase: 'open' | 'draining' | 'closed' = 'open';
  readonly #slots: Slots;
  readonly #runs: RunBook;
  readonly #keys = new Keys();
  readonly #turns: Turns;
  readonly triggers: Triggers;
  #onIdle: (() => void) | undefined;
  #closing: Promise<{ unfinished: string[] }> | undefined;

  constructor(options: MemoryQueueOptions) {
    const { journal = noJournal, onGivenUp = () => undefined } = options;
    this.#options = { ...options, journal };
    this.#runs = new RunBook({
      ...this.#options,
      onGivenUp,
      onForget: ({ key, job }) => {
        if (key !== null) this.#keys.forget(key.scope, job.runId);
      },
    });
    this.#turns = new Turns({ ...this.#options, runs: this.#runs, onEnd: () => this.#notifyIdle() });
    this.#slots = new Slots(options, this.#turns);
    for (const { key, job } of journal.runs)
      if (key !== null) this.#keys.use(key.scope, job.runId, key.contentDigest);
    for (const run of this.#runs.restore()) this.#turns.add(run);
    this.triggers = triggersOf({
      journal,
      stateOf: (id) => ({ ...this.#turns.of(id), isPaused: this.#turns.pauses.has(id) }),
      start: (job) => this.#startTriggered(job),
    });
  }

  async reserve(request: AdmissionRequest): Promise<Admission> {
    if (this.#phase !== 'open') throw shuttingDown();
    this.#runs.expire();
    const scope = scopeOf(request);
    const rerunFailed = request.idempotency?.rerunFailed ?? false;
    const known = this.#keys.get(scope);
    const isReplay = known?.state === 'used' && !(rerunFailed && this.#hasFailed(known));
    if (!isReplay) this.#slots.refuseIfFull(request.pipelineId);
    if (known?.state === 'staging') throw keyInProgress();
    const ownsKey = scope !== null && known === undefined;
    if (ownsKey) this.#keys.take(scope);
    const endSlot = this.#slots.take(request.pipelineId, { isReplay });
    const end = (): boolean => {
      const isFirst = endSlot();
      if (isFirst && ownsKey) this.#keys.release(scope);
      return isFirst;
    };
    return {
      accept: async (job, contentDigest) => {
        if (!end()) throw admissionEnded();
        try {
          return await this.#enqueue(job, { scope, rerunFailed, contentDigest, hasNoSlot: isReplay });
        } finally {
          this.#notifyIdle();
        }
      },
      release: async () => {
        if (end()) this.#notifyIdle();
      },
    };
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
    return this.#runs.list(pipelineIds, query);
  }

  async overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]> {
    this.#runs.expire();
    return pipelineIds.map((id) => ({ ...this.#turns.of(id), ...this.#runs.newestOf(id) }));
  }

  async waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]> {
    return pipelineIds.map((id) => this.#turns.waitingSince(id));
  }

  watch(onChange: () => void): RunWatch {
    return this.#runs.feed.watch(onChange);
  }

  async depth(): Promise<QueueDepth> {
    return { reserved: this.#slots.length, queued: this.#turns.waiting, running: this.#turns.running };
  }

  async kept(): Promise<KeptBundles> {
    this.#runs.expire();
    return this.#runs.bundles.kept;
  }

  async start(process: JobProcessor, observer?: RunObserver): Promise<void> {
    this.#turns.start(process, observer);
  }

  async pause(pipelineId: string, reason: string | null): Promise<Pause> {
    const pause = this.#turns.pause(pipelineId, reason);
    // A queue that is closing waits for no run that may not begin.
    this.#notifyIdle();
    return pause;
  }

  async resume(pipelineId: string): Promise<boolean> {
    return this.#turns.resume(pipelineId);
  }

  async pauses(): Promise<ReadonlyMap<string, Pause>> {
    return new Map(this.#turns.pauses);
  }

  async cancel(runId: string): Promise<Cancellation> {
    this.#runs.expire();
    const run = this.#runs.get(runId);
    if (run === undefined) throw runUnknown();
    const outcome = this.#turns.cancel(run) ?? 'repeated';
    if (outcome === 'repeated' && !isCancelled(run.record)) throw runFinished(run.record.status);
    return { outcome, record: structuredClone(run.record) };
  }

  async rerun(runId: string, newRunId: string): Promise<AcceptedRun> {
    if (this.#phase !== 'open') throw shuttingDown();
    this.#runs.expire();
    const old = this.#runs.get(runId);
    if (old === undefined) throw runUnknown();
    if (old.record.finished_at === null) throw runNotFinished(old.record.status);
    const known = old.rerunAs === null ? undefined : this.#runs.get(old.rerunAs);
    if (known !== undefined) return this.#replayed(known);
    if (old.bundle === 'gone') throw bundleGone();
    const { pipelineId } = old.job;
    this.#slots.refuseIfFull(pipelineId);
    const position = this.#turns.waitingOf(pipelineId) + 1;
    const { run, accepted } = this.#runs.rerun(old, { runId: newRunId, position });
    return this.#queued(run, accepted);
  }

  tell(runId: string, what: string): boolean {
    return this.#runs.tell(runId, what);
  }

  jobs(): Iterable<PublishJob> {
    return this.#runs.jobs();
  }

  isInterrupted(runId: string): boolean {
    return this.#runs.get(runId)?.isInterrupted ?? false;
  }

  drain(): void {
    if (this.#phase === 'open') this.#phase = 'draining';
  }

  close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    return (this.#closing ??= this.#shutDown(timeoutMs));
  }

  /** Needs no slot. */
  async #startTriggered(job: PublishJob): Promise<RunRecord> {
    if (this.#phase !== 'open') throw shuttingDown();
    const withoutKey = { scope: null, rerunFailed: false, contentDigest: noContent, hasNoSlot: false };
    return (await this.#enqueue(job, withoutKey)).record;
  }

  async #enqueue(
    job: PublishJob,
    { scope, rerunFailed, contentDigest, hasNoSlot }: Acceptance,
  ): Promise<AcceptedRun> {
    if (this.#phase === 'closed') throw shuttingDown();
    this.#runs.expire();
    const known = this.#keys.get(scope);
    if (known?.state === 'staging') throw keyInProgress();
    if (known?.state === 'used') {
      if (known.contentDigest !== contentDigest) throw keyConflict();
      const first = this.#runs.get(known.runId) as Run;
      if (!(rerunFailed && this.#hasFailed(known))) return this.#replayed(first);
    }
    if (hasNoSlot) this.#slots.refuseIfFull(job.pipelineId);
    const position = this.#turns.waitingOf(job.pipelineId) + 1;
    const key = scope === null ? null : { scope, contentDigest };
    const { run, accepted } = this.#runs.accept(job, { key, position });
    if (scope !== null) this.#keys.use(scope, job.runId, contentDigest);
    return this.#queued(run, accepted, known);
  }

  async #replayed(first: Run): Promise<AcceptedRun> {
    if (first.kept !== null) await first.kept;
    return { record: structuredClone(first.record), replayed: true, position: first.position };
  }

  /** Lets the run take its turn once it is kept. Throws as `#untilKept`. */
  async #queued(run: Run, accepted: RunRecord, before?: UsedKey): Promise<AcceptedRun> {
    try {
      if (run.kept !== null) await this.#untilKept(run, before);
      this.#turns.add(run);
      return { record: accepted, replayed: false, position: run.position };
    } finally {
      this.#notifyIdle();
    }
  }

  /** Throws if the run cannot be kept; its key is as it was before, then. */
  async #untilKept(run: Run, before: UsedKey | undefined): Promise<void> {
    const endSlot = this.#slots.take(run.job.pipelineId, { isReplay: false });
    try {
      await run.kept;
      run.kept = null;
    } catch (error) {
      this.#runs.withdraw(run);
      if (run.key !== null) {
        const { scope } = run.key;
        this.#keys.forget(scope, run.job.runId);
        const isKnown = before !== undefined && this.#runs.get(before.runId) !== undefined;
        if (isKnown) this.#keys.use(scope, before.runId, before.contentDigest);
      }
      throw error;
    } finally {
      endSlot();
    }
  }

  #hasFailed({ runId }: UsedKey): boolean {
    return this.#runs.get(runId)?.record.status === 'failed';
  }

  #notifyIdle(): void {
    if (this.#isIdle()) this.#onIdle?.();
  }

  #isIdle(): boolean {
    return this.#slots.isIdle && this.#turns.isIdle;
  }

  async #shutDown(timeoutMs: number): Promise<{ unfinished: string[] }> {
    const { clock, journal } = this.#options;
    this.#phase = 'draining';
    if (journal.outlives) this.#turns.hold();
    if (!this.#isIdle())
      await new Promise<void>((resolve) => {
        const timeout = clock.timeout(timeoutMs, resolve);
        this.#onIdle = () => {
          timeout.cancel();
          resolve();
        };
      });
    this.#phase = 'closed';

    const stopped = new WaybillError('aborted', 'the daemon stopped before the run was done', {
      hint: 'upload the bundle again',
    });
    const undone = await this.#turns.close(stopped);
    await this.#runs.close();
    return { unfinished: undone.map(({ job }) => job.runId) };
  }
}
