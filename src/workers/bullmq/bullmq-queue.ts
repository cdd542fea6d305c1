import type { Queue } from 'bullmq';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { admissions } from './admission.ts';
import { dispatcher, type Dispatcher } from './dispatcher.ts';
import { finishPoll, runFeed } from './bullmq-feed.ts';
import type { JobSeal } from './job-seal.ts';
import { linkRedis } from './link.ts';
import { joinProcesses, runSlots, type RunSlots } from './membership.ts';
import { pipelineQueues } from './pipelines.ts';
import { runStore, scopeKey } from './run-store.ts';
import { supersede } from './superseding.ts';
import { bullmqTriggers } from './bullmq-triggers.ts';
import type { PublishJob } from '../queue/job.ts';
import type { AdmissionRequest, JobQueue } from '../queue/job-queue.ts';
import type { PipelineMarks } from './run-steering.ts';
import { isRerunnable, type KeepLimits } from '../queue/kept-bundles.ts';
import { nothingToRetry, runFinished, runUnknown } from '../queue/refusals.ts';
import { unobserved } from '../queue/run-observer.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { dueRun, noRetries, type RetriesOf } from '../queue/run-retry.ts';
import { cancelledRun, isCancelled } from '../queue/run-transitions.ts';

/** The key that proves that Redis stores something disappears after this time. */
const probeLifeMs = 60_000;

export interface BullmqQueueOptions {
  clock: Clock;
  log: Log;
  /** `among`: the names of all Redis, if the pipelines are divided among several. */
  redis: { url: string; urlEnv: string; prefix: string; among?: readonly string[] };
  pipelineIds: readonly string[];
  /** Limit of uploads that are being received or wait for their turn, on all hosts together. */
  queueSize: number;
  /** The same limit for one pipeline; null, as by default: `queueSize` alone. */
  maxWaitingOf?: (pipelineId: string) => number | null;
  /** Jobs at once on this host. */
  maxConcurrency: number;
  /** Those of this process, if it has other queues, too; else as many as `maxConcurrency` says. */
  slots?: RunSlots;
  /** Whether runs of the pipeline may begin here now, asked before each; by default they may. */
  mayBegin?: (pipelineId: string) => Promise<boolean>;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /**
   * A process that was silent for this many milliseconds counts as dead: its runs are given to others, and
   * the uploads that it was receiving are forgotten.
   */
  workerTimeoutMs: number;
  shared: SharedBundles;
  /** Authenticates jobs; by default nothing does. */
  seal?: JobSeal;
  /**
   * Called when a finished run is forgotten, on whichever host comes first; a second time if that host died
   * before it was done.
   */
  onExpire: (job: PublishJob) => Promise<void>;
  /**
   * Called when the job needs what is staged no more, while its record stays; by default nothing is done. If
   * it fails, or this host ends before, any host removes it from shared staging.
   */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged; by default as long as their records. */
  keep?: KeepLimits;
  /** How failed runs are tried again; by default not at all. */
  retries?: RetriesOf;
  /**
   * Called before the outcome of a try is recorded, and after the end of a run that waited for its next one:
   * `next` is its record from then on.
   */
  onOutcome?: (job: PublishJob, next: RunRecord) => void;
  /**
   * Resolves once the events of what was done until now are kept beyond this process, which the end of a run
   * waits for; by default they are not. Never rejects.
   */
  told?: () => Promise<void>;
}

/** Transports staged bundles from the host that received them to the ones that publish them. */
export interface SharedBundles {
  /** Stores the staged bundle as `name` where every host reaches it, and resolves with the job to queue. */
  share(job: PublishJob, name: string): Promise<PublishJob>;
  /** Removes what was shared under the name; succeeds if there is nothing. */
  remove(name: string): Promise<void>;
}

export interface BullmqQueue extends JobQueue {
  /** Whether the run is being broken off on this host, so that another one does it again. */
  isInterrupted(runId: string): boolean;
  /** BullMQ's queues, by pipeline. */
  queues: ReadonlyMap<string, Queue>;
  /**
   * From now on this host takes runs of these pipelines, too. None is ever left out again: what was accepted
   * is published. Throws `queue_unavailable`.
   */
  addPipelines(pipelineIds: readonly string[]): Promise<void>;
  /** Whether a run was accepted here with the key of the request. Throws `queue_unavailable`. */
  isUsed(request: AdmissionRequest): Promise<boolean>;
  /** Names that were noted here for a pipeline, for as long as Redis has its data. */
  readonly marks: PipelineMarks;
  /** Whether Redis answers. */
  isUp(): boolean;
  /** Throws `queue_unavailable` unless Redis stores something. */
  prove(): Promise<void>;
}

const tickMs = 1_000;
const openWithinMs = 10_000;
/** Expired runs, and abandoned archives, that one host removes in one tick at most. */
const sweepLimit = 100;

/**
 * The queue of several hosts, in Redis.
 *
 * The state of a run is in the store (`scripts/`). BullMQ has a ticket for each run and decides whose turn it
 * is: one queue a pipeline, one active job in each, locks that workers renew. A run that was accepted is in
 * the outbox until its ticket is in BullMQ's queue. The host that accepts hands over at once, and every host
 * looks once a second for runs that a host left there when it died. So an acceptance is one step, and neither
 * a lost ticket nor a duplicate does harm.
 *
 * Every second each host also starts eligible pipelines, stops runs that were cancelled, in case the message
 * was lost, removes bundles that are not to be kept longer, deletes expired runs and removes
 * abandoned archives from shared staging.
 *
 * A host looks for jobs of dead workers only after its connection was up for as long as a worker may be
 * silent: after Redis was away for everybody, live workers have locked their jobs again by then.
 */
export async function bullmqQueue(options: BullmqQueueOptions): Promise<BullmqQueue> {
  const { clock, log, workerTimeoutMs } = options;
  const { url, urlEnv, prefix } = options.redis;
  const link = await linkRedis({ url, urlEnv, log, clock });
  const store = runStore(link, prefix, workerTimeoutMs, options.seal);
  const closing = (error: unknown): never => {
    link.close();
    throw error;
  };
  const membership = await joinProcesses(store, clock, options.redis.among ?? []).catch(closing);
  const pipelines = await pipelineQueues({ ...options, prefix, link, store }).catch(
    async (error: unknown) => {
      await membership.leave();
      return closing(error);
    },
  );
  const channel = `${prefix}:wake`;
  const wake = (pipelineId: string): void =>
    void link.redis.publish(channel, pipelineId).catch(() => undefined);
  const handOver = async (pipelineId: string): Promise<void> => {
    await pipelines.handOver(pipelineId);
    wake(pipelineId);
  };
  const { retries = noRetries, onOutcome = () => undefined } = options;
  let observed = unobserved;
  const onEnd = ({ pipelineId, runId }: PublishJob): Promise<void> => {
    observed.superseded({ pipelineId });
    return pipelines.withdraw(pipelineId, runId);
  };
  const onAccepted = async (pipelineId: string): Promise<void> => {
    try {
      await supersede(pipelineId, { ...options, store, retries, onOutcome, onEnd });
      await handOver(pipelineId);
    } catch (error) {
      log.warn({ pipeline_id: pipelineId, err: error }, 'accepted; handed over once redis answers');
    }
  };
  const admission = admissions({
    ...options,
    store,
    onAccepted,
  });

  const discard = async (job: PublishJob): Promise<void> => {
    try {
      await options.discard?.(job);
      if (job.staged !== null && job.archive !== undefined) await store.forgetStaged(job.archive.name);
    } catch (error) {
      log.warn({ run_id: job.runId, err: error }, 'what was staged for a run is removed later');
    }
  };
  const keep = options.keep ?? { keepMs: options.retentionMs, mostBundles: 1e9, mostBytes: 1e15 };
  const finishes = finishPoll(clock, (runIds) => store.finishedOf(runIds));
  const feed = runFeed({ clock, link, reads: store, channel: `${prefix}:changes` });
  let dispatch: Dispatcher | undefined;
  let lastRescue = 0;
  const housekeeping = async (): Promise<void> => {
    if (link.upForMs() === 0) return;
    await membership.renew();
    for (const pipelineId of await store.outboxes()) await handOver(pipelineId);
    if (dispatch !== undefined && isRescueDue()) await pipelines.rescue();
    if (dispatch !== undefined) for (const id of await pipelines.waiting()) dispatch.consider(id);
    for (const id of await store.cancelled(dispatch?.runIds() ?? [])) dispatch?.cancel(id);
    for (const job of await store.overkept(keep, sweepLimit)) await discard(job);
    for (const { runId, job } of await store.expired(sweepLimit)) {
      if (job !== null) await options.onExpire(job);
      await store.forget(runId);
    }
    for (const name of await store.unwanted(sweepLimit)) {
      await options.shared.remove(name);
      await store.forgetStaged(name);
    }
  };
  const isRescueDue = (): boolean => {
    if (link.upForMs() < workerTimeoutMs || clock.monotonic() - lastRescue < workerTimeoutMs / 3)
      return false;
    lastRescue = clock.monotonic();
    return true;
  };
  const stopTicking = new AbortController();
  const ticking = tick(clock, stopTicking.signal, housekeeping, log);

  const shutDown = async (timeoutMs: number): Promise<{ unfinished: string[] }> => {
    admission.drain();
    const enough = new AbortController();
    const timeout = clock.sleep(timeoutMs, enough.signal).catch(() => undefined);
    await Promise.race([timeout, Promise.all([admission.idle(), dispatch?.settled()])]);
    enough.abort();
    await admission.close();
    const unfinished = (await dispatch?.abort()) ?? [];
    stopTicking.abort();
    await Promise.all([ticking, finishes.close(), feed.close()]);
    await pipelines.close();
    await membership.leave();
    link.close();
    return { unfinished };
  };
  let closed: Promise<{ unfinished: string[] }> | undefined;

  return {
    queues: pipelines.queues,
    addPipelines: async (pipelineIds) => {
      // BullMQ would wait for a connection for as long as it takes.
      await link.ask(() => link.redis.ping());
      await within(clock, openWithinMs, pipelines.add(pipelineIds));
      for (const id of pipelineIds) dispatch?.consider(id);
    },
    isUsed: (request) => store.isUsed(scopeKey(request.pipelineId, request.idempotency)),
    marks: store.marks,
    isUp: () => link.upForMs() > 0,
    prove: async () => {
      await link.ask(() => link.redis.set(`${prefix}:probe`, clock.now().toISOString(), 'PX', probeLifeMs));
    },
    reserve: (request) => admission.reserve(request),
    find: (runId) => store.find(runId),
    untilFinished: (runId, signal) => finishes.wait(runId, signal),
    list: (pipelineIds, query) => store.list(pipelineIds, query),
    overview: (pipelineIds) => store.overview(pipelineIds),
    waitingSince: (pipelineIds) => store.waitingSince(pipelineIds),
    watch: (onChange) => feed.watch(onChange),
    depth: () => store.depth(),
    kept: () => store.kept(),
    triggers: bullmqTriggers({ clock, store, isOpen: () => admission.isOpen(), onAccepted }),
    pause: (pipelineId, reason) => store.pause(pipelineId, reason, clock.now()),
    resume: async (pipelineId) => {
      const wasPaused = await store.resume(pipelineId);
      wake(pipelineId);
      return wasPaused;
    },
    pauses: () => store.pauses(),
    start: async (process, observer = unobserved) => {
      const { told = async () => undefined, mayBegin = async () => true } = options;
      observed = observer;
      const slots = options.slots ?? runSlots(options.maxConcurrency);
      const of = {
        ...options,
        told,
        mayBegin,
        slots,
        discard,
        link,
        store,
        pipelines,
        retries,
        onOutcome,
        wake,
        process,
        observer,
      };
      const started = dispatcher(of);
      dispatch = started;
      const subscriber = link.another();
      subscriber.on('message', (from, id) => (from === channel ? started.consider(id) : started.cancel(id)));
      // On each connection: ioredis is set not to resubscribe (`link.ts`).
      subscriber.on(
        'ready',
        () => void subscriber.subscribe(channel, `${prefix}:cancel`).catch(() => undefined),
      );
      subscriber.connect().catch(() => undefined);
      for (const id of pipelines.queues.keys()) started.consider(id);
    },
    rerun: (runId, newRunId, trace = {}) => admission.rerun(runId, { runId: newRunId, trace }),
    cancel: async (runId) => {
      const found = await store.find(runId);
      if (found === undefined) throw runUnknown();
      const ended = cancelledRun(found, null, clock.now());
      const job = await store.jobOf(runId);
      const rerunnable = job !== null && isRerunnable(job, ended);
      const done = await store.cancel({ ...ended, rerunnable }, options.retentionMs);
      if (done === null) throw runUnknown();
      const { outcome, record } = done;
      if (outcome === 'finished') {
        if (!isCancelled(record)) throw runFinished(record.status);
        return { outcome: 'repeated', record };
      }
      if (outcome === 'forgotten') {
        await pipelines.withdraw(record.pipeline_id, runId);
        // Others may have waited behind it.
        wake(record.pipeline_id);
        await discard(done.job);
      }
      return { outcome, record };
    },
    retryNow: async (runId) => {
      const found = await store.find(runId);
      const done = found === undefined ? null : await store.retryNow(dueRun(found, clock.now()));
      if (done === null) throw runUnknown();
      const { outcome, record } = done;
      if (outcome === 'finished') throw nothingToRetry(record.status);
      if (outcome === 'due') {
        await pipelines.promote(record.pipeline_id, runId);
        wake(record.pipeline_id);
      }
      return record;
    },
    noteDelivery: (runId, note) => store.noteDelivery(runId, note),
    isInterrupted: (runId) => dispatch?.isInterrupted(runId) ?? false,
    drain: () => admission.drain(),
    close: (timeoutMs) => (closed ??= shutDown(timeoutMs)),
  };
}

/** Throws `queue_unavailable` if the work is not done in time. */
async function within(clock: Clock, ms: number, work: Promise<void>): Promise<void> {
  const enough = new AbortController();
  const late = clock.sleep(ms, enough.signal).then(
    () => {
      throw new WaybillError('queue_unavailable', 'the queue in Redis did not answer in time', {
        hint: 'try again once Redis is back',
      });
    },
    () => undefined,
  );
  try {
    await Promise.race([work, late]);
  } finally {
    enough.abort();
  }
}

/**
 * Does the work once a second, never twice at a time, until `signal` aborts. A series of failures is logged
 * once, at its first.
 */
async function tick(clock: Clock, signal: AbortSignal, work: () => Promise<void>, log: Log): Promise<void> {
  let hasFailed = false;
  while (!signal.aborted) {
    try {
      await work();
      hasFailed = false;
    } catch (error) {
      const isAway = error instanceof WaybillError && error.code === 'queue_unavailable';
      if (!hasFailed && !isAway) log.error({ err: error }, 'housekeeping of the queue failed');
      hasFailed = true;
    }
    await clock.sleep(tickMs, signal).catch(() => undefined);
  }
}
