import type { Clock } from '../../core/clock.ts';
import type { Digest } from '../../core/digest.ts';
import { errorRecord, WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { JobProcessor, JobQueue, Admission, AdmissionRequest } from '../queue.ts';
import type { PublishJob } from '../job.ts';
import { admissionEnded, keyConflict, keyInProgress, queueFull, shuttingDown } from '../refusals.ts';
import type { RunRecord } from '../run-record.ts';
import {
  acceptedRun,
  failedRun,
  finishedRun,
  progressedRun,
  queuedRun,
  startedRun,
} from '../run-transitions.ts';
import { WaitingLine } from './waiting-line.ts';

export interface MemoryQueueOptions {
  clock: Clock;
  log: Log;
  /**
   * Uploads that are being received or wait for their turn; the running ones are bounded by `maxConcurrency`
   * instead.
   */
  queueSize: number;
  maxConcurrency: number;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten, with the job whose staged directory is now nobody's. */
  onExpire: (job: PublishJob) => Promise<void>;
}

interface Entry {
  job: PublishJob;
  record: RunRecord;
  /** The Idempotency-Key's scope, so that it is forgotten with the run. */
  scope: string | null;
  /** Monotonic milliseconds; set when the run finished. */
  expiresAt: number;
}

type KeyState = { state: 'staging' } | { state: 'used'; runId: string; manifestDigest: Digest };

// A longer pause than a timer can hold (24.8 days) would fire at once.
const longestSleepMs = 3_600_000;

/**
 * The queue of one process, and nothing of it survives that process.
 *
 * An upload holds a *slot* from `reserve` until `accept` or `release`. Accepted, it is an *entry*: `waiting`
 * (in the order of acceptance), then `active` (at most one a pipeline, at most `maxConcurrency` in all), then
 * `finished` until its retention is over. Whenever an entry arrives or leaves `active`, `pump` starts the
 * first waiting ones whose pipeline is free; an entry that has to wait for its pipeline holds up nobody
 * else's.
 *
 * A key is `staging` while its first request is being received, and `used` once that was accepted; a release
 * forgets it, so that the client may try again. It is looked at twice: at `reserve` only `staging` refuses,
 * because no manifest is known to compare with; at `accept` the manifests are compared. Keys go with their
 * runs.
 *
 * The phases are `open`, `draining` (no new slots; all that was reserved or accepted goes on) and `closed`
 * (nothing starts any more).
 */
export function memoryQueue(options: MemoryQueueOptions): JobQueue {
  const { clock, log } = options;
  let phase: 'open' | 'draining' | 'closed' = 'open';
  let processor: JobProcessor | undefined;
  let reserved = 0;
  const waiting = new WaitingLine<Entry>();
  const active = new Map<string, { entry: Entry; abort: AbortController; done: Promise<void> }>();
  const finished: Entry[] = [];
  const entries = new Map<string, Entry>();
  const keys = new Map<string, KeyState>();
  const stopSweeping = new AbortController();
  const isStopped = (): boolean => stopSweeping.signal.aborted;
  let sweeping: Promise<void> | undefined;
  const expiring = new Set<Promise<void>>();
  let onIdle: (() => void) | undefined;
  let closing: Promise<{ unfinished: string[] }> | undefined;

  function admit(request: AdmissionRequest): Admission {
    if (phase !== 'open') throw shuttingDown();
    expire();
    if (reserved + waiting.length >= options.queueSize) throw queueFull(options.queueSize);
    const scope = request.idempotency === undefined ? null : scopeOf(request.pipelineId, request.idempotency);
    const known = scope === null ? undefined : keys.get(scope);
    if (known?.state === 'staging') throw keyInProgress();
    const ownsKey = scope !== null && known === undefined;
    if (ownsKey) keys.set(scope, { state: 'staging' });
    reserved += 1;

    let open = true;
    const end = (): boolean => {
      if (!open) return false;
      open = false;
      reserved -= 1;
      if (ownsKey) keys.delete(scope);
      return true;
    };
    return {
      accept: async (job, manifestDigest) => {
        if (!end()) throw admissionEnded();
        try {
          return enqueue(job, scope, manifestDigest);
        } finally {
          tellIdle();
        }
      },
      release: async () => {
        if (end()) tellIdle();
      },
    };
  }

  function enqueue(
    job: PublishJob,
    scope: string | null,
    manifestDigest: Digest,
  ): { record: RunRecord; replayed: boolean } {
    if (phase === 'closed') throw shuttingDown();
    expire();
    const known = scope === null ? undefined : keys.get(scope);
    if (known?.state === 'used') {
      const first = entries.get(known.runId) as Entry;
      if (known.manifestDigest === manifestDigest)
        return { record: structuredClone(first.record), replayed: true };
      throw keyConflict();
    }
    const record = acceptedRun(job, clock.now());
    const entry: Entry = { job, record: queuedRun(record, clock.now()), scope, expiresAt: Infinity };
    if (scope !== null) keys.set(scope, { state: 'used', runId: job.runId, manifestDigest });
    entries.set(job.runId, entry);
    waiting.push(job.pipelineId, entry);
    pump();
    return { record, replayed: false };
  }

  function pump(): void {
    if (processor === undefined || phase === 'closed') return;
    while (active.size < options.maxConcurrency) {
      const next = waiting.take((pipelineId) => !active.has(pipelineId));
      if (next === undefined) return;
      const abort = new AbortController();
      active.set(next.job.pipelineId, { entry: next, abort, done: run(next, abort.signal, processor) });
    }
  }

  /** Never rejects. The processor gets its turn only after `active` knows of the run. */
  async function run(entry: Entry, signal: AbortSignal, process: JobProcessor): Promise<void> {
    entry.record = startedRun(entry.record, clock.now());
    try {
      await Promise.resolve();
      const { run } = await process(entry.job, {
        signal,
        onProgress: (progress) => void (entry.record = progressedRun(entry.record, progress)),
      });
      entry.record = finishedRun(entry.record, run, clock.now());
    } catch (error) {
      log.error({ run_id: entry.job.runId, err: error }, 'run failed');
      entry.record = failedRun(entry.record, errorRecord(error), clock.now());
    }
    active.delete(entry.job.pipelineId);
    retain(entry);
    pump();
    tellIdle();
  }

  function retain(entry: Entry): void {
    entry.expiresAt = clock.monotonic() + options.retentionMs;
    finished.push(entry);
    sweeping ??= sweep();
  }

  /** Wakes when the next run expires, so that its directory goes even when nobody asks. */
  async function sweep(): Promise<void> {
    for (let next = finished[0]; next !== undefined && !isStopped(); next = finished[0]) {
      const pauseMs = Math.min(Math.max(next.expiresAt - clock.monotonic(), 0), longestSleepMs);
      await clock.sleep(pauseMs, stopSweeping.signal).catch(() => undefined);
      if (!isStopped()) expire();
    }
    sweeping = undefined;
  }

  /** Also called before every look at the entries, so that what has expired is never seen. */
  function expire(): void {
    const now = clock.monotonic();
    // In the order of finishing, and each is kept equally long: what has expired stands at the front.
    const kept = finished.findIndex(({ expiresAt }) => expiresAt > now);
    if (kept === 0 || finished.length === 0) return;
    const expired = finished.splice(0, kept === -1 ? finished.length : kept);
    for (const { job, scope } of expired) {
      entries.delete(job.runId);
      if (scope !== null) keys.delete(scope);
      const work: Promise<void> = options
        .onExpire(job)
        .catch((error: unknown) =>
          log.error({ run_id: job.runId, err: error }, 'an expired run could not be cleared away'),
        )
        .finally(() => expiring.delete(work));
      expiring.add(work);
    }
  }

  function tellIdle(): void {
    if (isIdle()) onIdle?.();
  }

  function isIdle(): boolean {
    return reserved === 0 && active.size === 0 && (waiting.length === 0 || processor === undefined);
  }

  async function shutDown(timeoutMs: number): Promise<{ unfinished: string[] }> {
    phase = 'draining';
    const enough = new AbortController();
    const timeout = clock.sleep(timeoutMs, enough.signal).catch(() => undefined);
    if (!isIdle()) await Promise.race([timeout, new Promise<void>((resolve) => (onIdle = resolve))]);
    enough.abort();
    phase = 'closed';

    const stopped = new WaybillError('aborted', 'the daemon stopped before the run was done', {
      hint: 'upload the bundle again',
    });
    const neverStarted = waiting.takeAll();
    for (const entry of neverStarted) {
      entry.record = failedRun(entry.record, errorRecord(stopped), clock.now());
      retain(entry);
    }
    const interrupted = [...active.values()];
    for (const { abort } of interrupted) abort.abort(stopped);
    await Promise.all(interrupted.map(({ done }) => done));
    stopSweeping.abort();
    await Promise.all([sweeping, ...expiring]);
    const undone = interrupted
      .map(({ entry }) => entry)
      .filter(({ record }) => record.status !== 'succeeded');
    return { unfinished: [...undone, ...neverStarted].map(({ job }) => job.runId) };
  }

  return {
    reserve: async (request) => admit(request),
    find: async (runId) => {
      expire();
      return structuredClone(entries.get(runId)?.record);
    },
    list: async (pipelineId) => {
      expire();
      const records = [...entries.values()]
        .map(({ record }) => record)
        .filter((record) => record.pipeline_id === pipelineId);
      return structuredClone(records.reverse());
    },
    depth: async () => ({ reserved, queued: waiting.length, running: active.size }),
    start: async (process) => {
      processor = process;
      pump();
    },
    drain: () => {
      if (phase === 'open') phase = 'draining';
    },
    close: (timeoutMs) => (closing ??= shutDown(timeoutMs)),
  };
}

function scopeOf(pipelineId: string, { caller, key }: { caller: string; key: string }): string {
  return JSON.stringify([caller, pipelineId, key]);
}
