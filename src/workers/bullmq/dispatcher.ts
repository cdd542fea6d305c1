import { randomUUID } from 'node:crypto';
import type { Job } from 'bullmq';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import { traceFields } from '../../core/tracing/traceparent.ts';
import { attempt } from './attempt.ts';
import type { RedisLink } from './link.ts';
import type { PipelineQueues, Ticket } from './pipelines.ts';
import { progressSaver } from './progress.ts';
import { recordAfter, runOutcomes } from './run-outcomes.ts';
import type { RunSlots } from './membership.ts';
import type { RunStore } from './run-store.ts';
import { newerOf } from './superseding.ts';
import type { PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { cancelled } from '../queue/refusals.ts';
import { waitedSeconds, type RunObserver } from '../queue/run-observer.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { nextTryOf, supersededRun, type RetriesOf } from '../queue/run-retry.ts';
import { cancelledRun, isCancelled, queuedRun, startedRun } from '../queue/run-transitions.ts';

export interface DispatcherOptions {
  link: RedisLink;
  store: RunStore;
  pipelines: PipelineQueues;
  clock: Clock;
  log: Log;
  /** Shared with other queues of this process. */
  slots: RunSlots;
  /** Whether runs of the pipeline may begin here now; asked before each. */
  mayBegin: (pipelineId: string) => Promise<boolean>;
  retentionMs: number;
  workerTimeoutMs: number;
  /** Notifies every host that the pipeline may have a job. */
  wake: (pipelineId: string) => void;
  process: JobProcessor;
  observer: RunObserver;
  /** Called when the job needs what is staged no more, while its record stays. */
  discard: (job: PublishJob) => Promise<void>;
  retries: RetriesOf;
  /** As `BullmqQueueOptions.onOutcome`. */
  onOutcome: (job: PublishJob, next: RunRecord) => void;
  /** Resolves once the events of what was done until now are kept. Never rejects. */
  told: () => Promise<void>;
}

/** The jobs that this host runs. */
export interface Dispatcher {
  /** The pipeline may have a job now. */
  consider(pipelineId: string): void;
  /** The runs that are under way here. */
  runIds(): string[];
  /** Stops a run if it is under way here: somebody cancelled it. */
  cancel(runId: string): void;
  /** Whether the run is being broken off here, so that another worker does it again. */
  isInterrupted(runId: string): boolean;
  /** Takes no more jobs; resolves when none runs. */
  settled(): Promise<void>;
  /**
   * Stops the jobs that still run and gives them back to the queue, for other hosts; resolves with their
   * runs.
   */
  abort(): Promise<string[]>;
}

interface Running {
  runId: string;
  abort: AbortController;
  done: Promise<void>;
  beat: () => void;
}

const longestRetryMs = 2_000;

/**
 * Takes jobs while this process has a free slot, and runs them.
 *
 * `candidates` are the pipelines that may have a job: one is added by a message of the host that added a
 * job of it, or ended one while another waited, and every second all in which one waits, in case a message
 * was lost. Asking for a job is one call, which returns a locked job or nothing (none waits, or another
 * host runs one of this pipeline). Pipelines that are paused are not asked for; whether one is when a run
 * begins is decided where the run is taken.
 *
 * A heartbeat keeps the lock on a job that was taken. While Redis is away the run goes on: its lock may
 * expire, but nobody can take the job either, and when Redis is back the job is locked again before any host
 * looks for stalled jobs (`queue.ts`). If another worker has the job nevertheless, because only this host was
 * cut off, the run here is stopped and its outcome dropped; until then the lease at the destination keeps the
 * two apart.
 */
export function dispatcher(options: DispatcherOptions): Dispatcher {
  const { store, pipelines, clock, log, observer, slots } = options;
  const candidates = new Set<string>();
  const running = new Map<string, Running>();
  const interrupted: string[] = [];
  const closing = new AbortController();
  const abandoned = new AbortController();
  let pumping: Promise<void> | undefined;
  let stopped = false;
  let isFull = false;

  async function pump(): Promise<void> {
    isFull = false;
    for (let pipelineId = nextCandidate(); pipelineId !== undefined; pipelineId = nextCandidate()) {
      if (stopped) return;
      isFull = !slots.take();
      if (isFull) return;
      candidates.delete(pipelineId);
      let job: Job<Ticket> | undefined;
      try {
        if (!(await store.mayTake(pipelineId)) || !(await options.mayBegin(pipelineId))) continue;
        const token = randomUUID();
        job = await pipelines.next(pipelineId, token);
        if (job !== undefined) begin(pipelineId, job, token);
      } finally {
        if (job === undefined) slots.release();
      }
    }
  }

  function consider(pipelineId: string): void {
    candidates.add(pipelineId);
    pumping ??= pump()
      .catch((error: unknown) => log.debug({ err: error }, 'no job could be asked for'))
      .finally(() => {
        pumping = undefined;
        // A candidate may have been added after the pump looked for the last time.
        if (!stopped && !isFull && nextCandidate() !== undefined) void clock.sleep(100).then(considerNext);
      });
  }

  function nextCandidate(): string | undefined {
    return [...candidates].find((id) => !running.has(id));
  }

  function considerNext(): void {
    const pipelineId = nextCandidate();
    if (!stopped && pipelineId !== undefined) consider(pipelineId);
  }

  function begin(pipelineId: string, job: Job<Ticket>, token: string): void {
    const runId = job.id ?? '';
    const abort = new AbortController();
    const lock = pipelines.lockOf(job, token);
    const beat = (): void =>
      void store.hold(lock, options.workerTimeoutMs).then(
        (held) => {
          if (!held) abort.abort(new WaybillError('lease_lost', 'another worker has taken this run over'));
        },
        () => undefined,
      );
    const heartbeat: Timer = clock.every(options.workerTimeoutMs / 4, beat);
    const done = run(job, token, abort)
      .catch((error: unknown) =>
        log.error(
          { run_id: runId, err: error },
          'the outcome of a run could not be recorded; another worker takes it up',
        ),
      )
      .finally(() => {
        heartbeat.cancel();
        running.delete(pipelineId);
        slots.release();
        return lookForNext(pipelineId);
      });
    running.set(pipelineId, { runId, abort, done, beat });
  }

  /**
   * After a run, for the next one of its pipeline. Where none waits, nobody needs to hear of it: whoever adds
   * one later tells by itself. It is asked after the job has ended, so that none is overlooked that came
   * while it was active.
   */
  async function lookForNext(pipelineId: string): Promise<void> {
    // If Redis cannot say, everybody looks.
    if (!(await pipelines.isWaiting(pipelineId).catch(() => true))) return;
    options.wake(pipelineId);
    consider(pipelineId);
  }

  /** Runs a locked job to its end, whatever Redis does in between. */
  async function run(job: Job<Ticket>, token: string, abort: AbortController): Promise<void> {
    const runId = job.id ?? '';
    const taken = await insist(() => store.take(runId, token, clock.now()));
    // Its worker died between recording the end of the run and ending the job.
    if (taken === null) return insist(() => pipelines.end(job, token, null));
    // It was paused after this host had looked.
    if (taken === 'paused') return insist(() => pipelines.giveBack(job, token));
    // A worker died before it had postponed the job.
    if ('pauseMs' in taken) return insist(() => pipelines.postpone(job, token, taken));
    if (await outcomes.endAgain(job, token, runId)) return;
    if ('rejection' in taken) {
      const { pipeline_id: pipelineId } = taken.record;
      await outcomes.refuse(job, token, taken.record, taken.rejection);
      observer.finished({ pipelineId, seconds: 0, succeeded: false, cancelled: false, result: null });
      return;
    }
    const isLater = taken.record.attempt > 1 && !taken.isCancelled;
    const newer = isLater ? await insist(() => newerOf(store, taken.job, options.retries)) : undefined;
    if (newer !== undefined) {
      const superseded = supersededRun(taken.record, newer, clock.now());
      options.onOutcome(taken.job, superseded);
      await tellAll();
      await outcomes.end(job, token, taken.job, superseded);
      return;
    }
    const { pipelineId } = taken.job;
    const fields = { run_id: runId, pipeline_id: pipelineId, ...traceFields(taken.job) };
    log.info({ ...fields, take: taken.takes, attempt: taken.record.attempt }, 'run started');
    const begun = startedRun(taken.record, clock.now());
    if (taken.takes === 1 && begun.attempt === 1)
      observer.started({ job: taken.job, pipelineId, waitedSeconds: waitedSeconds(begun) });
    const since = clock.monotonic();
    await insist(() => store.save(token, begun));
    const progress = progressSaver(begun, clock, (record) => store.save(token, record));
    const outcome = await attempt(taken, {
      clock,
      log,
      process: options.process,
      signal: abort.signal,
      onProgress: progress.add,
    });
    const seconds = (clock.monotonic() - since) / 1000;
    await progress.stop();
    const hasBeenCancelled = taken.isCancelled || hasCode(abort.signal.reason, 'cancelled');
    const ended = recordAfter(progress.record(), outcome, hasBeenCancelled, clock.now());
    if (closing.signal.aborted && ended.status !== 'succeeded' && !hasBeenCancelled) {
      await tellAll();
      interrupted.push(runId);
      log.info(fields, 'run given back');
      await insist(() => store.giveBack(token, queuedRun({ ...taken.record }, clock.now())));
      return insist(() => pipelines.giveBack(job, token));
    }
    const next = await outcomes.afterTry(taken.job, ended);
    options.onOutcome(taken.job, next);
    await tellAll();
    const result = 'result' in outcome ? outcome.result : null;
    if (next.status === 'queued' && (await outcomes.postpone(job, token, next))) {
      observer.retried({ job: taken.job, record: next, seconds, result });
      log.warn({ ...fields, ...nextTryOf(next) }, 'run failed; it is tried again');
      return;
    }
    const last = next.status === 'queued' ? cancelledRun(ended, null, clock.now()) : next;
    if (!(await outcomes.end(job, token, taken.job, last))) return;
    const { status } = last;
    observer.finished({
      ...{ pipelineId, seconds, succeeded: status === 'succeeded', cancelled: isCancelled(last), result },
    });
    log.info({ ...fields, status }, 'run finished');
    if ('error' in outcome) log.error({ ...fields, err: outcome.error }, 'run failed');
  }

  /**
   * Waits for the events of what was done until now: the next worker reports what this one has not if it dies
   * before the outcome is recorded; afterwards no other would.
   */
  const tellAll = (): Promise<void> => insist(() => promised(options.told(), abandoned.signal));

  /** Repeats the call until Redis answers or this process gives up. */
  async function insist<T>(work: () => Promise<T>): Promise<T> {
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, longestRetryMs)) {
      try {
        return await work();
      } catch (error) {
        const isPassing = error instanceof WaybillError && error.code === 'queue_unavailable';
        if (!isPassing || abandoned.signal.aborted) throw error;
        await clock.sleep(pauseMs, abandoned.signal).catch(() => undefined);
      }
    }
  }

  const outcomes = runOutcomes({ ...options, insist });
  const find = (runId: string): Running | undefined =>
    [...running.values()].find((one) => one.runId === runId);
  const allDone = async (): Promise<void> => {
    await pumping;
    await Promise.all([...running.values()].map(({ done }) => done));
  };
  slots.onFree(considerNext);
  options.link.redis.on('ready', () => [...running.values()].forEach(({ beat }) => beat()));

  return {
    consider: (pipelineId) => {
      if (!stopped) consider(pipelineId);
    },
    runIds: () => [...running.values()].map(({ runId }) => runId),
    cancel: (runId) => find(runId)?.abort.abort(cancelled()),
    isInterrupted: (runId) => {
      const signal = find(runId)?.abort.signal;
      return signal?.aborted === true && !hasCode(signal.reason, 'cancelled');
    },
    settled: () => {
      stopped = true;
      return allDone();
    },
    abort: async () => {
      stopped = true;
      const reason = new WaybillError(
        'aborted',
        'this worker stopped before the run was done; another takes it up',
      );
      closing.abort(reason);
      for (const { abort } of running.values()) abort.abort(reason);
      // Redis may never come back.
      const enough = new AbortController();
      const patience = clock.sleep(longestRetryMs * 10, enough.signal).then(
        () => abandoned.abort(),
        () => undefined,
      );
      await allDone();
      enough.abort();
      await patience;
      return interrupted;
    },
  };
}

/** Rejects with `queue_unavailable` if `signal` aborts first. */
async function promised(work: Promise<void>, signal: AbortSignal): Promise<void> {
  let release: () => void = () => undefined;
  const givenUp = new Promise<never>((_resolve, reject) => {
    release = onAbort(signal, () =>
      reject(new WaybillError('queue_unavailable', 'this process ends before redis is back')),
    );
  });
  await Promise.race([work, givenUp]).finally(release);
}
