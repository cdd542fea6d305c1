import type { Clock } from '../../core/clock.ts';
import type { Digest } from '../../core/digest.ts';
import { errorRecord, WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { JobResult, PublishJob } from '../job.ts';
import type {
  Admission,
  AdmissionRequest,
  JobProcessor,
  JobQueue,
  QueueDepth,
  RunPage,
  RunQuery,
} from '../queue.ts';
import {
  admissionEnded,
  keyConflict,
  keyInProgress,
  pageGone,
  queueFull,
  shuttingDown,
} from '../refusals.ts';
import { unobserved, waitedSeconds, type RunObserver } from '../run-observer.ts';
import type { RunRecord } from '../run-record.ts';
import {
  acceptedRun,
  failedRun,
  finishedRun,
  progressedRun,
  queuedRun,
  startedRun,
} from '../run-transitions.ts';
import { RunWaiters } from '../run-waiters.ts';
import { Retention } from './retention.ts';
import { RunLine } from './run-line.ts';
import { WaitingLine } from './waiting-line.ts';

export interface MemoryQueueOptions {
  clock: Clock;
  log: Log;
  /** Limit of uploads that are being received or wait for their turn; running ones do not count. */
  queueSize: number;
  /** Jobs at once. */
  maxConcurrency: number;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten; the job's staged directory can go then. */
  onExpire: (job: PublishJob) => Promise<void>;
}

interface Entry {
  job: PublishJob;
  record: RunRecord;
  /** The scope of the Idempotency-Key, which is forgotten with the run. */
  scope: string | null;
  /** Its place among the runs of its pipeline. */
  arrival: number;
}

interface Active {
  entry: Entry;
  abort: AbortController;
  done: Promise<void>;
}

interface UsedKey {
  state: 'used';
  runId: string;
  contentDigest: Digest;
}

type KeyState = { state: 'staging' } | UsedKey;

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
 * An upload holds a *slot* from `reserve` until `accept` or `release`. Once accepted it is an *entry*:
 * `waiting` (in the order of acceptance), then `active` (at most one a pipeline, at most `maxConcurrency` in
 * all), then `finished` until its retention is over. Whenever an entry arrives or leaves `active`, `pump`
 * starts the first waiting ones whose pipeline is free; an entry that waits for its pipeline does not delay
 * those of others.
 *
 * A key is `staging` while its first request is being received, and `used` once that was accepted; a release
 * forgets it, so that the client may try again. It is checked twice: `reserve` refuses only `staging`,
 * because it knows no content to compare with; `accept` compares the contents. A request with a `used` key
 * queues nothing and so needs no slot, unless the first run expires before it is accepted, or has failed and
 * is to be rerun. A key belongs to the last run that was accepted with it and is forgotten with that.
 *
 * The phases are `open`, `draining` (no new slots; all that was reserved or accepted goes on) and `closed`
 * (nothing starts any more).
 */
class MemoryQueue implements JobQueue {
  readonly #options: MemoryQueueOptions;
  #phase: 'open' | 'draining' | 'closed' = 'open';
  #processor: JobProcessor | undefined;
  #observer = unobserved;
  #reserved = 0;
  /** Admissions without a slot. */
  #replays = 0;
  readonly #waiting = new WaitingLine<Entry>();
  readonly #active = new Map<string, Active>();
  readonly #finished: Retention<Entry>;
  readonly #entries = new Map<string, Entry>();
  /** The same, of each pipeline in the order of acceptance. */
  readonly #lines = new Map<string, RunLine<Entry>>();
  readonly #keys = new Map<string, KeyState>();
  readonly #waiters = new RunWaiters();
  #onIdle: (() => void) | undefined;
  #closing: Promise<{ unfinished: string[] }> | undefined;

  constructor(options: MemoryQueueOptions) {
    const { clock, retentionMs } = options;
    this.#options = options;
    this.#finished = new Retention({ clock, retentionMs, onExpire: (entry) => this.#forget(entry) });
  }

  async reserve({ pipelineId, idempotency }: AdmissionRequest): Promise<Admission> {
    if (this.#phase !== 'open') throw shuttingDown();
    this.#finished.expire();
    const scope =
      idempotency === undefined ? null : JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
    const rerunFailed = idempotency?.rerunFailed ?? false;
    const known = scope === null ? undefined : this.#keys.get(scope);
    const isReplay = known?.state === 'used' && !(rerunFailed && this.#hasFailed(known));
    if (!isReplay) this.#refuseIfFull();
    if (known?.state === 'staging') throw keyInProgress();
    const ownsKey = scope !== null && known === undefined;
    if (ownsKey) this.#keys.set(scope, { state: 'staging' });
    if (isReplay) this.#replays += 1;
    else this.#reserved += 1;

    let open = true;
    const end = (): boolean => {
      if (!open) return false;
      open = false;
      if (isReplay) this.#replays -= 1;
      else this.#reserved -= 1;
      if (ownsKey) this.#keys.delete(scope);
      return true;
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
    this.#finished.expire();
    return structuredClone(this.#entries.get(runId)?.record);
  }

  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    this.#finished.expire();
    if (this.#entries.get(runId)?.record.finished_at === null) await this.#waiters.wait(runId, signal);
  }

  async list(pipelineId: string, { limit, before, status }: RunQuery): Promise<RunPage> {
    this.#finished.expire();
    const from = before === null || before === undefined ? undefined : this.#entries.get(before);
    if (from === undefined ? typeof before === 'string' : from.job.pipelineId !== pipelineId)
      throw pageGone();
    const found: RunRecord[] = [];
    for (const { record } of this.#lines.get(pipelineId)?.newestFirst(from?.arrival) ?? []) {
      if (typeof status === 'string' && record.status !== status) continue;
      if (found.length === limit) return { runs: structuredClone(found), more: true };
      found.push(record);
    }
    return { runs: structuredClone(found), more: false };
  }

  async depth(): Promise<QueueDepth> {
    return { reserved: this.#reserved, queued: this.#waiting.length, running: this.#active.size };
  }

  async start(process: JobProcessor, observer?: RunObserver): Promise<void> {
    this.#processor = process;
    this.#observer = observer ?? unobserved;
    this.#pump();
  }

  drain(): void {
    if (this.#phase === 'open') this.#phase = 'draining';
  }

  close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    return (this.#closing ??= this.#shutDown(timeoutMs));
  }

  #enqueue(
    job: PublishJob,
    { scope, rerunFailed, contentDigest, hasNoSlot }: Acceptance,
  ): { record: RunRecord; replayed: boolean } {
    if (this.#phase === 'closed') throw shuttingDown();
    this.#finished.expire();
    const known = scope === null ? undefined : this.#keys.get(scope);
    if (known?.state === 'staging') throw keyInProgress();
    if (known?.state === 'used') {
      if (known.contentDigest !== contentDigest) throw keyConflict();
      const first = this.#entries.get(known.runId) as Entry;
      if (!(rerunFailed && this.#hasFailed(known)))
        return { record: structuredClone(first.record), replayed: true };
    }
    if (hasNoSlot) this.#refuseIfFull();
    const { clock } = this.#options;
    const record = acceptedRun(job, clock.now());
    const entry: Entry = { job, record: queuedRun(record, clock.now()), scope, arrival: 0 };
    if (scope !== null) this.#keys.set(scope, { state: 'used', runId: job.runId, contentDigest });
    this.#entries.set(job.runId, entry);
    const line = this.#lines.get(job.pipelineId) ?? new RunLine();
    this.#lines.set(job.pipelineId, line);
    entry.arrival = line.push(entry);
    this.#waiting.push(job.pipelineId, entry);
    this.#pump();
    return { record, replayed: false };
  }

  #hasFailed({ runId }: UsedKey): boolean {
    return this.#entries.get(runId)?.record.status === 'failed';
  }

  #refuseIfFull(): void {
    const { queueSize } = this.#options;
    if (this.#reserved + this.#waiting.length >= queueSize) throw queueFull(queueSize);
  }

  #pump(): void {
    if (this.#processor === undefined || this.#phase === 'closed') return;
    while (this.#active.size < this.#options.maxConcurrency) {
      const next = this.#waiting.take((pipelineId) => !this.#active.has(pipelineId));
      if (next === undefined) return;
      const abort = new AbortController();
      const done = this.#run(next, abort.signal, this.#processor);
      this.#active.set(next.job.pipelineId, { entry: next, abort, done });
    }
  }

  /** Never rejects. Calls the processor only after `active` has the run. */
  async #run(entry: Entry, signal: AbortSignal, process: JobProcessor): Promise<void> {
    const { clock, log } = this.#options;
    entry.record = startedRun(entry.record, clock.now());
    const { pipelineId } = entry.job;
    this.#observer.started({ pipelineId, waitedSeconds: waitedSeconds(entry.record) });
    const since = clock.monotonic();
    let result: JobResult | null = null;
    try {
      await Promise.resolve();
      result = await process(entry.job, {
        signal,
        onProgress: (progress) => void (entry.record = progressedRun(entry.record, progress)),
      });
      entry.record = finishedRun(entry.record, result.run, clock.now());
    } catch (error) {
      log.error({ run_id: entry.job.runId, err: error }, 'run failed');
      entry.record = failedRun(entry.record, errorRecord(error), clock.now());
    }
    const seconds = (clock.monotonic() - since) / 1000;
    this.#observer.finished({ pipelineId, seconds, succeeded: entry.record.status === 'succeeded', result });
    this.#active.delete(pipelineId);
    this.#keepFinished(entry);
    this.#pump();
    this.#notifyIdle();
  }

  #keepFinished(entry: Entry): void {
    this.#finished.keep(entry);
    this.#waiters.finished(entry.job.runId);
  }

  /** Never rejects. */
  #forget({ job, scope, arrival }: Entry): Promise<void> {
    this.#entries.delete(job.runId);
    this.#lines.get(job.pipelineId)?.remove(arrival);
    const known = scope === null ? undefined : this.#keys.get(scope);
    // A run that was started for a failed one has its key.
    if (scope !== null && known?.state === 'used' && known.runId === job.runId) this.#keys.delete(scope);
    return this.#options
      .onExpire(job)
      .catch((error: unknown) =>
        this.#options.log.error(
          { run_id: job.runId, err: error },
          'an expired run could not be cleared away',
        ),
      );
  }

  #notifyIdle(): void {
    if (this.#isIdle()) this.#onIdle?.();
  }

  #isIdle(): boolean {
    const willRun = this.#waiting.length > 0 && this.#processor !== undefined;
    return this.#reserved + this.#replays + this.#active.size === 0 && !willRun;
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
    const neverStarted = this.#waiting.takeAll();
    for (const entry of neverStarted) {
      entry.record = failedRun(entry.record, errorRecord(stopped), clock.now());
      this.#keepFinished(entry);
    }
    const interrupted = [...this.#active.values()];
    for (const { abort } of interrupted) abort.abort(stopped);
    await Promise.all(interrupted.map(({ done }) => done));
    await this.#finished.close();
    const undone = interrupted
      .map(({ entry }) => entry)
      .filter(({ record }) => record.status !== 'succeeded');
    return { unfinished: [...undone, ...neverStarted].map(({ job }) => job.runId) };
  }
}
