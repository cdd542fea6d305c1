import type { Queue } from 'bullmq';
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
import { isRerunnable } from '../queue/kept-bundles.ts';
import { nothingToRetry, runFinished, runUnknown } from '../queue/refusals.ts';
import type { RunWatch } from '../queue/run-changes.ts';
import type { RunPage } from '../queue/run-filter.ts';
import { type RunObserver, unobserved } from '../queue/run-observer.ts';
import type { DeliveryNote, RunRecord } from '../queue/run-record.ts';
import { dueRun } from '../queue/run-retry.ts';
import { cancelledRun, isCancelled } from '../queue/run-transitions.ts';
import type { Triggers } from '../queue/trigger.ts';
import { Admissions } from './admission.ts';
import { type FinishPoll, finishPoll, type RunFeed, runFeed } from './bullmq-feed.ts';
import { type BullmqQueueOptions, type ResolvedOptions, resolveOptions } from './bullmq-options.ts';
import { bullmqTriggers } from './bullmq-triggers.ts';
import { Dispatcher } from './dispatcher.ts';
import { Housekeeping } from './housekeeping.ts';
import { RedisLink } from './link.ts';
import { PipelineQueues } from './pipelines.ts';
import { keyRoot } from './redis-client.ts';
import { type RunStore, runStore } from './run-store.ts';
import { RunWorker } from './run-worker.ts';
import { supersede } from './superseding.ts';

/** The lifetime of the key that `prove` writes, in milliseconds. */
const probeLifeMs = 60_000;

/** The parts of the queue that need a connection to Redis. */
interface Opened {
  link: RedisLink;
  /** The prefix of every key and channel. */
  root: string;
  store: RunStore;
  pipelines: PipelineQueues;
}

/**
 * A job queue that several hosts share through Redis.
 *
 * The Lua scripts in `scripts/` keep the state of each run. BullMQ gets one ticket per run and only decides
 * which run goes next. Every pipeline has its own BullMQ queue with at most one active job, and the worker
 * keeps renewing the lock on that job. An accepted run first goes to an outbox, and leaves it once its ticket
 * is in BullMQ's queue. The host that accepted the run moves it right away, and once per second every host
 * checks for runs that a dead host left in the outbox. As a result, accepting a run is a single atomic step,
 * and it doesn't matter if a ticket gets lost or duplicated.
 *
 * Once per second, each host also starts pipelines that are ready and stops cancelled runs, in case it missed
 * a message. It also removes expired bundles and runs, and abandoned archives in shared staging (see
 * `housekeeping.ts`).
 *
 * A host takes over dead workers' jobs only after its own connection has been up for `workerTimeoutMs`. If an
 * outage cut off every host, that gives the live workers enough time to lock their jobs again.
 */
export class BullmqQueue implements JobQueue {
  readonly triggers: Triggers;
  readonly #options: ResolvedOptions;
  readonly #link: RedisLink;
  readonly #root: string;
  readonly #store: RunStore;
  readonly #pipelines: PipelineQueues;
  readonly #admissions: Admissions;
  readonly #finishes: FinishPoll;
  readonly #feed: RunFeed;
  /** The channel used to wake up the dispatchers on all hosts. */
  readonly #channel: string;
  readonly #housekeeping: Housekeeping;
  #observer = unobserved;
  #dispatcher: Dispatcher | undefined;
  #closed: Promise<{ unfinished: string[] }> | undefined;

  private constructor(options: ResolvedOptions, opened: Opened) {
    const { link, root, store, pipelines } = opened;
    const { clock } = options;
    this.#options = options;
    this.#link = link;
    this.#root = root;
    this.#store = store;
    this.#pipelines = pipelines;
    this.#channel = `${root}:wake`;
    const onAccepted = (pipelineId: string, runId?: string): Promise<void> =>
      this.#onAccepted(pipelineId, runId);
    this.#admissions = new Admissions({ ...options, store, onAccepted });
    this.triggers = bullmqTriggers({ clock, store, isOpen: () => this.#admissions.isOpen(), onAccepted });
    this.#finishes = finishPoll(clock, (runIds) => store.finishedOf(runIds));
    this.#feed = runFeed({ clock, link, reads: store, channel: `${root}:changes` });
    this.#housekeeping = new Housekeeping({
      ...options,
      ...opened,
      dispatcher: () => this.#dispatcher,
      handOver: (pipelineId) => this.#handOver(pipelineId),
      discard: (job) => this.#discard(job),
    });
  }

  /** Connects to Redis. Throws the same errors as `RedisLink.open` and `PipelineQueues.open`. */
  static async open(options: BullmqQueueOptions): Promise<BullmqQueue> {
    const { clock, log, workerTimeoutMs } = options;
    const { prefix, ...server } = options.redis;
    const root = keyRoot(prefix, server);
    const link = await RedisLink.open({ ...server, log, clock });
    try {
      const store = runStore(link, root, workerTimeoutMs, options.seal);
      const pipelines = await PipelineQueues.open({ ...options, prefix, link, store });
      return new BullmqQueue(resolveOptions(options), { link, root, store, pipelines });
    } catch (error) {
      link.close();
      throw error;
    }
  }

  /** BullMQ's queues, keyed by pipeline. */
  get queues(): ReadonlyMap<string, Queue> {
    return this.#pipelines.queues;
  }

  /**
   * Adds pipelines for this host to run. Pipelines are never removed, because the runs already accepted for
   * them still need to be published. Throws `queue_unavailable`.
   */
  async addPipelines(pipelineIds: readonly string[]): Promise<void> {
    await this.#pipelines.add(pipelineIds);
    for (const id of pipelineIds) this.#dispatcher?.consider(id);
  }

  /** Checks that Redis can store data. Throws a `queue_unavailable` error if it can't. */
  async prove(): Promise<void> {
    const now = this.#options.clock.now().toISOString();
    await this.#link.ask(() => this.#link.redis.set(`${this.#root}:probe`, now, 'PX', probeLifeMs));
  }

  /** Reports whether this host is aborting the run in order to hand it over to another host. */
  isInterrupted(runId: string): boolean {
    return this.#dispatcher?.isInterrupted(runId) ?? false;
  }

  reserve(request: AdmissionRequest): Promise<Admission> {
    return this.#admissions.reserve(request);
  }

  rerun(runId: string, newRunId: string, origin: RunOrigin = {}): Promise<AcceptedRun> {
    return this.#admissions.rerun(runId, { runId: newRunId, origin });
  }

  find(runId: string): Promise<RunRecord | undefined> {
    return this.#store.find(runId);
  }

  list(pipelineIds: readonly string[], query: RunQuery): Promise<RunPage> {
    return this.#store.list(pipelineIds, query);
  }

  overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]> {
    return this.#store.overview(pipelineIds);
  }

  waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]> {
    return this.#store.waitingSince(pipelineIds);
  }

  depth(): Promise<QueueDepth> {
    return this.#store.depth();
  }

  kept(): Promise<KeptBundles> {
    return this.#store.kept();
  }

  untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    return this.#finishes.wait(runId, signal);
  }

  watch(onChange: () => void): RunWatch {
    return this.#feed.watch(onChange);
  }

  noteDelivery(runId: string, note: DeliveryNote): Promise<void> {
    return this.#store.noteDelivery(runId, note);
  }

  pause(pipelineId: string, reason: string | null): Promise<Pause> {
    return this.#store.pause(pipelineId, reason, this.#options.clock.now());
  }

  async resume(pipelineId: string): Promise<boolean> {
    const wasPaused = await this.#store.resume(pipelineId);
    this.#wake(pipelineId);
    return wasPaused;
  }

  pauses(): Promise<ReadonlyMap<string, Pause>> {
    return this.#store.pauses();
  }

  async cancel(runId: string): Promise<Cancellation> {
    const found = await this.#store.find(runId);
    if (found === undefined) throw runUnknown();
    const ended = cancelledRun(found, null, this.#options.clock.now());
    const job = await this.#store.jobOf(runId);
    const rerunnable = job !== null && isRerunnable(job, ended);
    const done = await this.#store.cancel({ ...ended, rerunnable }, this.#options.retentionMs);
    if (done === null) throw runUnknown();
    const { outcome, record } = done;
    if (outcome === 'finished') {
      if (!isCancelled(record)) throw runFinished(record.status);
      return { outcome: 'repeated', record };
    }
    if (outcome === 'forgotten') {
      await this.#pipelines.withdraw(record.pipeline_id, runId);
      // Runs that were waiting behind this one may be able to start now.
      this.#wake(record.pipeline_id);
      await this.#discard(done.job);
    }
    return { outcome, record };
  }

  async retryNow(runId: string): Promise<RunRecord> {
    const found = await this.#store.find(runId);
    const now = this.#options.clock.now();
    const done = found === undefined ? null : await this.#store.retryNow(dueRun(found, now));
    if (done === null) throw runUnknown();
    const { outcome, record } = done;
    if (outcome === 'finished') throw nothingToRetry(record.status);
    if (outcome === 'due') {
      await this.#pipelines.promote(record.pipeline_id, runId);
      this.#wake(record.pipeline_id);
    }
    return record;
  }

  async start(process: JobProcessor, observer: RunObserver = unobserved): Promise<void> {
    const options = this.#options;
    const [link, store, pipelines] = [this.#link, this.#store, this.#pipelines];
    this.#observer = observer;
    const discard = (job: PublishJob): Promise<void> => this.#discard(job);
    const parts = { ...options, store, pipelines };
    const worker = new RunWorker({ ...parts, process, observer, discard });
    const wake = (pipelineId: string): void => this.#wake(pipelineId);
    const dispatcher = new Dispatcher({ ...parts, link, worker, wake });
    this.#dispatcher = dispatcher;
    const subscriber = link.another();
    subscriber.on('message', (from: string, id: string) =>
      from === this.#channel ? dispatcher.consider(id) : dispatcher.cancel(id),
    );
    const channels = [this.#channel, `${this.#root}:cancel`];
    // Subscribe on every connection, since automatic resubscription is turned off in `redis-client.ts`.
    subscriber.on('ready', () => void subscriber.subscribe(...channels).catch(() => undefined));
    subscriber.connect().catch(() => undefined);
    for (const id of pipelines.ids) dispatcher.consider(id);
  }

  drain(): void {
    this.#admissions.drain();
  }

  close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    return (this.#closed ??= this.#shutDown(timeoutMs));
  }

  async #shutDown(timeoutMs: number): Promise<{ unfinished: string[] }> {
    this.drain();
    const enough = new AbortController();
    const timeout = this.#options.clock.sleep(timeoutMs, enough.signal).catch(() => undefined);
    await Promise.race([timeout, Promise.all([this.#admissions.idle(), this.#dispatcher?.settled()])]);
    enough.abort();
    await this.#admissions.close();
    const unfinished = (await this.#dispatcher?.abort()) ?? [];
    await Promise.all([this.#housekeeping.close(), this.#finishes.close(), this.#feed.close()]);
    await this.#pipelines.close();
    this.#link.close();
    return { unfinished };
  }

  #wake(pipelineId: string): void {
    void this.#link.redis.publish(this.#channel, pipelineId).catch(() => undefined);
  }

  async #handOver(pipelineId: string, runId?: string): Promise<void> {
    await this.#pipelines.handOver(pipelineId, runId);
    this.#wake(pipelineId);
  }

  async #onAccepted(pipelineId: string, runId?: string): Promise<void> {
    const { log } = this.#options;
    const onEnd = (job: PublishJob): Promise<void> => {
      this.#observer.superseded({ pipelineId: job.pipelineId });
      return this.#pipelines.withdraw(job.pipelineId, job.runId);
    };
    try {
      await supersede(pipelineId, { ...this.#options, store: this.#store, onEnd });
      await this.#handOver(pipelineId, runId);
    } catch (error) {
      log.warn({ pipeline_id: pipelineId, err: error }, 'accepted; enqueued once redis answers');
    }
  }

  async #discard(job: PublishJob): Promise<void> {
    try {
      await this.#options.discard(job);
      if (job.staged !== null && job.archive !== undefined) await this.#store.forgetStaged(job.archive.name);
    } catch (error) {
      const { log } = this.#options;
      log.warn({ run_id: job.runId, err: error }, 'the staged files of a run are removed later');
    }
  }
}
