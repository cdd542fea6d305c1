import { randomUUID } from 'node:crypto';
import type { Job } from 'bullmq';
import type { Clock } from '../../core/clock.ts';
import { asWaybillError, errorRecord, WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { RedisLink } from './link.ts';
import type { PipelineQueues, Ticket } from './pipelines.ts';
import { progressSaver } from './progress.ts';
import type { RunStore, Taken } from './store.ts';
import type { JobResult } from '../job.ts';
import type { JobProcessor } from '../queue.ts';
import type { RunRecord } from '../run-record.ts';
import { failedRun, finishedRun, queuedRun, startedRun } from '../run-transitions.ts';

export interface DispatcherOptions {
  link: RedisLink;
  store: RunStore;
  pipelines: PipelineQueues;
  clock: Clock;
  log: Log;
  maxConcurrency: number;
  retentionMs: number;
  workerTimeoutMs: number;
  /** Tells every host that the pipeline may have a job to give. */
  wake: (pipelineId: string) => void;
  process: JobProcessor;
}

/** The jobs that this host runs. */
export interface Dispatcher {
  /** The pipeline may have a job now. */
  consider(pipelineId: string): void;
  /** Takes no more jobs; resolves when none runs. */
  settled(): Promise<void>;
  /** Stops what still runs and gives it back to the queue, for another host; returns those runs. */
  abort(): Promise<string[]>;
}

interface Running {
  runId: string;
  abort: AbortController;
  done: Promise<void>;
  beat: () => void;
}

type Outcome = { result: JobResult } | { error: unknown };

/** A run that has brought down so many workers is not given to another. */
const mostTakes = 5;
/** A worker that was killed leaves its lease at the destination, which is stale after two minutes. */
const staleLeaseMs = 180_000;
const busyPauseMs = 5_000;
const longestRetryMs = 2_000;

/**
 * Takes jobs while this host has a place free, and runs them.
 *
 * `candidates` are the pipelines that may have a job to give: woken by a message of whoever added or ended
 * one, and all of them every second, should a message have been lost. Asking is one call that answers with a
 * locked job or with nothing (none waits, or another host runs one of this pipeline).
 *
 * A taken job is kept by a heartbeat. While Redis is away the run goes on: its lock may run out, but nobody
 * can take the job either, and on Redis's return it is locked again before any host looks for stalled jobs
 * (`queue.ts`). Where another worker has the job nevertheless (this host alone was cut off), the run
 * here is stopped and its outcome dropped; until then the lease at the destination keeps the two apart.
 */
export function dispatcher(options: DispatcherOptions): Dispatcher {
  const { store, pipelines, clock, log } = options;
  const candidates = new Set<string>();
  const running = new Map<string, Running>();
  const interrupted: string[] = [];
  const closing = new AbortController();
  const abandoned = new AbortController();
  let pumping: Promise<void> | undefined;
  let stopped = false;

  async function pump(): Promise<void> {
    while (!stopped && running.size < options.maxConcurrency) {
      const pipelineId = [...candidates].find((id) => !running.has(id));
      if (pipelineId === undefined) return;
      candidates.delete(pipelineId);
      const token = randomUUID();
      const job = await pipelines.next(pipelineId, token);
      if (job !== undefined) begin(pipelineId, job, token);
    }
  }

  function consider(pipelineId: string): void {
    candidates.add(pipelineId);
    pumping ??= pump()
      .catch((error: unknown) => log.debug({ err: error }, 'no job could be asked for'))
      .finally(() => {
        pumping = undefined;
        // One that was added after the last look of the pump.
        if (
          !stopped &&
          running.size < options.maxConcurrency &&
          [...candidates].some((id) => !running.has(id))
        )
          void clock.sleep(100).then(() => [...candidates].slice(0, 1).forEach(consider));
      });
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
    const timer = setInterval(beat, options.workerTimeoutMs / 4);
    const done = run(job, token, abort)
      .catch((error: unknown) =>
        log.error(
          { run_id: runId, err: error },
          'the outcome of a run could not be recorded; another worker takes it up',
        ),
      )
      .finally(() => {
        clearInterval(timer);
        running.delete(pipelineId);
        options.wake(pipelineId);
        consider(pipelineId);
      });
    running.set(pipelineId, { runId, abort, done, beat });
  }

  /** From a locked job to its end, whatever Redis does in between. */
  async function run(job: Job<Ticket>, token: string, abort: AbortController): Promise<void> {
    const runId = job.id ?? '';
    const taken = await insist(() => store.take(runId, token));
    // Its worker died after the run was recorded and before BullMQ knew.
    if (taken === null) return insist(() => pipelines.end(job, token, null));
    const fields = { run_id: runId, pipeline_id: taken.job.pipelineId };
    log.info({ ...fields, take: taken.takes }, 'run started');
    const begun = startedRun({ ...taken.record, destinations: [] }, clock.now());
    await insist(() => store.save(token, begun));
    const progress = progressSaver(begun, (record) => store.save(token, record));
    const outcome = await attempt(taken, abort.signal, progress.add);
    await progress.stop();
    const record = recordOf(progress.record(), outcome);
    if (closing.signal.aborted && record.status !== 'succeeded') {
      interrupted.push(runId);
      log.info(fields, 'run given back');
      await insist(() => store.giveBack(token, queuedRun({ ...taken.record }, clock.now())));
      return insist(() => pipelines.giveBack(job, token));
    }
    const isOurs = await insist(() => store.finish(token, record, options.retentionMs));
    if (!isOurs) {
      log.warn({ run_id: runId }, 'another worker has taken this run over; its outcome here is dropped');
      return;
    }
    log.info({ ...fields, status: record.status }, 'run finished');
    if ('error' in outcome) log.error({ run_id: runId, err: outcome.error }, 'run failed');
    await insist(() => pipelines.end(job, token, record));
  }

  async function attempt(
    { job, takes }: Taken,
    signal: AbortSignal,
    onProgress: Parameters<JobProcessor>[1]['onProgress'],
  ): Promise<Outcome> {
    if (takes > mostTakes)
      return {
        error: new WaybillError(
          'worker_failed',
          `${mostTakes} workers ended while they published this bundle`,
          {
            hint: 'look into the logs of the workers for what ended them, then upload it again',
          },
        ),
      };
    const patientUntil = clock.monotonic() + (takes > 1 ? staleLeaseMs : 0);
    for (;;) {
      try {
        const result = await options.process(job, { signal, onProgress });
        if (!isBusy(result) || clock.monotonic() >= patientUntil || signal.aborted) return { result };
        log.info({ run_id: job.runId }, 'waiting for the lease of the worker that died');
        await clock.sleep(busyPauseMs, signal);
      } catch (error) {
        return { error };
      }
    }
  }

  function recordOf(record: RunRecord, outcome: Outcome): RunRecord {
    return 'result' in outcome
      ? finishedRun(record, outcome.result.run, clock.now())
      : failedRun(record, errorRecord(asWaybillError(outcome.error)), clock.now());
  }

  /** Until Redis answers, or this process gives up. */
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

  const allDone = async (): Promise<void> => {
    await pumping;
    await Promise.all([...running.values()].map(({ done }) => done));
  };
  options.link.redis.on('ready', () => [...running.values()].forEach(({ beat }) => beat()));

  return {
    consider: (pipelineId) => {
      if (!stopped) consider(pipelineId);
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
      // Redis may be away for good.
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

/** Nothing failed but that somebody else holds the destination. */
function isBusy({ run }: JobResult): boolean {
  const errors = run.pipelines.flatMap(({ error, destinations }) => [
    error,
    ...destinations.flatMap((destination) => [
      destination.error,
      ...destination.actions.map((action) => action.error),
    ]),
  ]);
  const failures = errors.filter((error) => error !== null);
  return failures.length > 0 && failures.some(({ code }) => code === 'destination_busy');
}
