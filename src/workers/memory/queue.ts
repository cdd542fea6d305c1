import type { Clock } from '../../core/clock.ts';
import type { Digest } from '../../core/digest.ts';
import { WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { PublishJob } from '../job.ts';
import { retryAfterSeconds } from '../pace.ts';
import type {
  AcceptedRun,
  Admission,
  AdmissionRequest,
  Cancellation,
  JobProcessor,
  JobQueue,
  Pause,
  PipelineOverview,
  QueueDepth,
  RunQuery,
} from '../queue.ts';
import {
  admissionEnded,
  keyConflict,
  keyInProgress,
  pipelineFull,
  queueFull,
  runFinished,
  runUnknown,
  shuttingDown,
} from '../refusals.ts';
import type { RunObserver } from '../run-observer.ts';
import type { RunRecord } from '../run-record.ts';
import { isCancelled } from '../run-transitions.ts';
import type { RunPage } from '../records/page-of-runs.ts';
import type { RunWatch } from '../records/run-watch.ts';
import { Keys, scopeOf, type UsedKey } from './keys.ts';
import { RunBook, type Run } from './run-book.ts';
import { Slots } from './slots.ts';
import { Turns } from './turns.ts';

export interface MemoryQueueOptions {
  clock: Clock;
  log: Log;
  /** Limit of uploads that are being received or wait for their turn; running ones do not count. */
  queueSize: number;
  /** The same limit for one pipeline; null, as by default: `queueSize` alone. */
  maxWaitingOf?: (pipelineId: string) => number | null;
  /** Jobs at once. */
  maxConcurrency: number;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten; the job's staged directory can go then. */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when the job needs what is staged no more, while its record stays; by default nothing is done. */
  discard?: (job: PublishJob) => Promise<void>;
}

interface Acceptance {
  scope: string | null;
  rerunFailed: boolean;
  contentDigest: Digest;
  hasNoSlot: boolean;
}

/** The queue of one process; nothing of it survives that process. */
export function memoryQueue(options: MemoryQueueOptions): JobQueue {
  return new MemoryQueue(options);
}

/**
 * An upload holds a *slot* from `reserve` until `accept` or `release`. Once accepted it is a *run*: it has
 * its record in the book until its retention is over, and takes its turn.
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
class MemoryQueue implements JobQueue {
  readonly #options: MemoryQueueOptions;
  #phase: 'open' | 'draining' | 'closed' = 'open';
  readonly #slots = new Slots();
  readonly #runs: RunBook;
  readonly #keys = new Keys();
  readonly #turns: Turns;
  #onIdle: (() => void) | undefined;
  #closing: Promise<{ unfinished: string[] }> | undefined;

  constructor(options: MemoryQueueOptions) {
    this.#options = options;
    this.#runs = new RunBook({
      ...options,
      onForget: ({ scope, job }) => {
        if (scope !== null) this.#keys.forget(scope, job.runId);
      },
    });
    this.#turns = new Turns({ ...options, runs: this.#runs, onEnd: () => this.#notifyIdle() });
  }

  async reserve(request: AdmissionRequest): Promise<Admission> {
    if (this.#phase !== 'open') throw shuttingDown();
    this.#runs.expire();
    const scope = scopeOf(request);
    const rerunFailed = request.idempotency?.rerunFailed ?? false;
    const known = this.#keys.get(scope);
    const isReplay = known?.state === 'used' && !(rerunFailed && this.#hasFailed(known));
    if (!isReplay) this.#refuseIfFull(request.pipelineId);
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
          return this.#enqueue(job, { scope, rerunFailed, contentDigest, hasNoSlot: isReplay });
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

  watch(onChange: () => void): RunWatch {
    return this.#runs.feed.watch(onChange);
  }

  async depth(): Promise<QueueDepth> {
    return { reserved: this.#slots.length, queued: this.#turns.waiting, running: this.#turns.running };
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

  drain(): void {
    if (this.#phase === 'open') this.#phase = 'draining';
  }

  close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    return (this.#closing ??= this.#shutDown(timeoutMs));
  }

  #enqueue(job: PublishJob, { scope, rerunFailed, contentDigest, hasNoSlot }: Acceptance): AcceptedRun {
    if (this.#phase === 'closed') throw shuttingDown();
    this.#runs.expire();
    const known = this.#keys.get(scope);
    if (known?.state === 'staging') throw keyInProgress();
    if (known?.state === 'used') {
      if (known.contentDigest !== contentDigest) throw keyConflict();
      const first = this.#runs.get(known.runId) as Run;
      if (!(rerunFailed && this.#hasFailed(known)))
        return { record: structuredClone(first.record), replayed: true, position: first.position };
    }
    if (hasNoSlot) this.#refuseIfFull(job.pipelineId);
    const position = this.#turns.waitingOf(job.pipelineId) + 1;
    const { run, accepted } = this.#runs.accept(job, { scope, position });
    if (scope !== null) this.#keys.use(scope, job.runId, contentDigest);
    this.#turns.add(run);
    return { record: accepted, replayed: false, position };
  }

  #hasFailed({ runId }: UsedKey): boolean {
    return this.#runs.get(runId)?.record.status === 'failed';
  }

  #refuseIfFull(pipelineId: string): void {
    const { queueSize, maxWaitingOf } = this.#options;
    const all = this.#slots.length + this.#turns.waiting;
    if (all >= queueSize) throw queueFull(queueSize, retryAfterSeconds(this.#turns.pace(null, all)));
    const maxWaiting = maxWaitingOf?.(pipelineId) ?? null;
    const waiting = this.#slots.lengthOf(pipelineId) + this.#turns.waitingOf(pipelineId);
    if (maxWaiting === null || waiting < maxWaiting) return;
    const pace = this.#turns.pace(pipelineId, waiting);
    throw pipelineFull(pipelineId, maxWaiting, retryAfterSeconds(pace));
  }

  #notifyIdle(): void {
    if (this.#isIdle()) this.#onIdle?.();
  }

  #isIdle(): boolean {
    return this.#slots.isIdle && this.#turns.isIdle;
  }

  async #shutDown(timeoutMs: number): Promise<{ unfinished: string[] }> {
    const { clock } = this.#options;
    this.#phase = 'draining';
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
