import type { Queue } from 'bullmq';
import type { Clock } from '../../core/clock.ts';
import { WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { admissions } from './admission.ts';
import { dispatcher, type Dispatcher } from './dispatcher.ts';
import { linkRedis } from './link.ts';
import { pipelineQueues } from './pipelines.ts';
import { runStore } from './store.ts';
import type { PublishJob } from '../job.ts';
import type { JobQueue } from '../queue.ts';

export interface BullmqQueueOptions {
  clock: Clock;
  log: Log;
  redis: { url: string; urlEnv: string; prefix: string };
  pipelineIds: readonly string[];
  /** Uploads that are being received or wait for their turn, on all hosts together. */
  queueSize: number;
  /** Jobs at once on this host. */
  maxConcurrency: number;
  retentionMs: number;
  /**
   * A process that was not heard of for so long has died: its runs are given to others, and what it was
   * receiving is forgotten.
   */
  workerTimeoutMs: number;
  shared: SharedBundles;
  /**
   * Called when a finished run is forgotten, by whichever host comes first: again where that host died in
   * between.
   */
  onExpire: (job: PublishJob) => Promise<void>;
}

/** How a staged bundle gets from the host that received it to the one that publishes it. */
export interface SharedBundles {
  /**
   * Brings the staged bundle to where every host reaches it, under `name`; from then on the job is that of
   * the answer.
   */
  share(job: PublishJob, name: string): Promise<PublishJob>;
  /** Removes what was shared under the name; where there is nothing, that is success. */
  remove(name: string): Promise<void>;
}

export interface BullmqQueue extends JobQueue {
  /** BullMQ's own, for its board. */
  queues: ReadonlyMap<string, Queue>;
}

const tickMs = 1_000;
const swept = 100;

/**
 * The queue of several hosts, in Redis.
 *
 * What is true of a run stands in the store (`bullmq-scripts.ts`); BullMQ has a ticket for each run and
 * decides whose turn it is: one queue a pipeline, one active job in each, locks that workers renew. A run
 * that was accepted is in the outbox until its ticket is in BullMQ's queue: whoever accepts hands over at
 * once, and every host looks once a second for what a host that died in between left there. So an acceptance
 * is one step, and neither a lost ticket nor a second one does harm.
 *
 * Each second every host also: renews nothing, which admissions and jobs do themselves; gives places to
 * pipelines that may have a job; forgets what has expired; removes from shared staging what an API left that
 * died before it accepted.
 *
 * Jobs of dead workers are looked for only after the connection was up for as long as a worker may be silent:
 * after Redis was away for everybody, those that live have by then locked their jobs again.
 */
export async function bullmqQueue(options: BullmqQueueOptions): Promise<BullmqQueue> {
  const { clock, log, workerTimeoutMs } = options;
  const { url, urlEnv, prefix } = options.redis;
  const link = await linkRedis({ url, urlEnv, log, monotonic: () => clock.monotonic() });
  const store = runStore(link, prefix, workerTimeoutMs);
  const pipelines = await pipelineQueues({ ...options, prefix, link, store }).catch((error: unknown) => {
    link.close();
    throw error;
  });
  const channel = `${prefix}:wake`;
  const wake = (pipelineId: string): void =>
    void link.redis.publish(channel, pipelineId).catch(() => undefined);
  const handOver = async (pipelineId: string): Promise<void> => {
    await pipelines.handOver(pipelineId);
    wake(pipelineId);
  };
  const admission = admissions({
    ...options,
    store,
    onAccepted: (pipelineId) =>
      handOver(pipelineId).catch((error: unknown) =>
        log.warn({ pipeline_id: pipelineId, err: error }, 'accepted; handed over once redis answers'),
      ),
  });

  let dispatch: Dispatcher | undefined;
  let lastRescue = 0;
  const housekeeping = async (): Promise<void> => {
    if (link.upForMs() === 0) return;
    for (const pipelineId of await store.outboxes()) await handOver(pipelineId);
    if (dispatch !== undefined && isRescueDue()) await pipelines.rescue();
    for (const id of options.pipelineIds) dispatch?.consider(id);
    for (const { runId, job } of await store.expired(swept)) {
      if (job !== null) await options.onExpire(job);
      await store.forget(runId);
    }
    for (const name of await store.unwanted(swept)) {
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
    await ticking;
    await pipelines.close();
    link.close();
    return { unfinished };
  };
  let closing: Promise<{ unfinished: string[] }> | undefined;

  return {
    queues: pipelines.queues,
    reserve: (request) => admission.reserve(request),
    find: (runId) => store.find(runId),
    list: (pipelineId) => store.list(pipelineId),
    depth: () => store.depth(),
    start: async (process) => {
      const started = dispatcher({ ...options, link, store, pipelines, wake, process });
      dispatch = started;
      const subscriber = link.another();
      subscriber.on('message', (_channel, pipelineId) => started.consider(pipelineId));
      // After each connection anew: ioredis subscribes again only to what it had subscribed to.
      subscriber.on('ready', () => void subscriber.subscribe(channel).catch(() => undefined));
      subscriber.connect().catch(() => undefined);
      for (const id of options.pipelineIds) started.consider(id);
    },
    drain: () => admission.drain(),
    close: (timeoutMs) => (closing ??= shutDown(timeoutMs)),
  };
}

/**
 * Once a second, one after the other, until told to stop; a failure is told in the log once, and the next
 * tick tries again.
 */
async function tick(clock: Clock, signal: AbortSignal, work: () => Promise<void>, log: Log): Promise<void> {
  let told = false;
  while (!signal.aborted) {
    try {
      await work();
      told = false;
    } catch (error) {
      const isAway = error instanceof WaybillError && error.code === 'queue_unavailable';
      if (!told && !isAway) log.error({ err: error }, 'housekeeping of the queue failed');
      told = true;
    }
    await clock.sleep(tickMs, signal).catch(() => undefined);
  }
}
