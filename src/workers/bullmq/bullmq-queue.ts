import { waitAtMost } from '../../core/lib/clock.ts';
import { isRerunnable } from '../queue/bundle-retention.ts';
import type { RunOrigin } from '../queue/job.ts';
import type { AdmissionRequest, Cancellation, JobProcessor, JobQueue, RunQuery } from '../queue/job-queue.ts';
import { nothingToRetry, runFinished, runUnknown } from '../queue/refusals.ts';
import { noRunObserver, type RunObserver } from '../queue/run-observer.ts';
import type { DeliveryNote, RunRecord } from '../queue/run-record.ts';
import { makeRetryDue, supersededRun } from '../queue/run-retry.ts';
import { cancelledRun, isCancelled } from '../queue/run-transitions.ts';
import { Admissions } from './admission.ts';
import { FinishPoll, RunFeed } from './bullmq-feed.ts';
import { type BullmqQueueOptions, openContext, type QueueContext } from './bullmq-options.ts';
import { noteDelivery } from './deliveries.ts';
import { Dispatcher } from './dispatcher.ts';
import { Housekeeping } from './housekeeping.ts';
import { RunWorker } from './run-worker.ts';

/** The lifetime of the key that `check` writes, in milliseconds. */
const probeLifeMs = 60_000;

/**
 * A job queue that several hosts share through Redis.
 *
 * The Lua scripts in `scripts/` keep the state of each run. BullMQ gets one ticket per run and only decides
 * which run goes next. Every pipeline has its own BullMQ queue with at most one active job, and the worker
 * keeps renewing the lock on that job. An accepted run first goes to an outbox, and leaves it once its ticket
 * is in BullMQ's queue. The host that accepted the run moves it right away, and once per second every host
 * checks for runs that a dead host left in the outbox. As a result, accepting a run is a single atomic step,
 * and it does not matter if a ticket gets lost or duplicated.
 *
 * Once per second, each host also starts pipelines that are ready and stops cancelled runs, in case it missed
 * a message. It also removes expired bundles and runs, and abandoned archives in shared staging (see
 * `housekeeping.ts`).
 *
 * A host takes over dead workers' jobs only after its own connection has been up for `workerTimeoutMs`. If an
 * outage cut off every host, that gives the live workers enough time to lock their jobs again.
 */
export class BullmqQueue implements JobQueue {
  readonly #context: QueueContext;
  readonly #admissions: Admissions;
  readonly #finishes: FinishPoll;
  readonly #feed: RunFeed;
  readonly #housekeeping: Housekeeping;
  /** The channel used to wake up the dispatchers on all hosts. */
  readonly #channel: string;
  #observer = noRunObserver;
  #dispatcher: Dispatcher | undefined;
  #closed: Promise<{ unfinished: string[] }> | undefined;

  private constructor(context: QueueContext) {
    const { clock, link, store } = context;
    this.#context = context;
    this.#channel = link.key('wake');
    this.#admissions = new Admissions({
      ...context,
      onAccepted: (pipelineId, confirmed) => this.#onAccepted(pipelineId, confirmed),
    });
    this.#finishes = new FinishPoll(clock, (runIds) => store.reads.findFinished(runIds));
    this.#feed = new RunFeed(clock, store.reads);
    this.#housekeeping = new Housekeeping({
      ...context,
      dispatcher: () => this.#dispatcher,
      handOver: (pipelineId) => this.#handOver(pipelineId),
    });
  }

  /** Connects to Redis. Throws the same errors as `openContext`. */
  static async open(options: BullmqQueueOptions): Promise<BullmqQueue> {
    return new BullmqQueue(await openContext(options));
  }

  readonly find = (runId: string) => this.#context.store.reads.find(runId);
  readonly list = (ids: readonly string[], query: RunQuery) => this.#context.store.reads.list(ids, query);
  readonly overview = (ids: readonly string[]) => this.#context.store.reads.overview(ids);
  readonly waitingSince = (ids: readonly string[]) => this.#context.store.reads.waitingSince(ids);
  readonly depth = () => this.#context.store.reads.depth();
  readonly bundleUsage = () => this.#context.store.reads.bundleUsage();
  readonly pauses = () => this.#context.store.pauses();
  readonly pause = (id: string, reason: string | null) =>
    this.#context.store.pause(id, reason, this.#context.clock.now());
  readonly reserve = (request: AdmissionRequest) => this.#admissions.reserve(request);
  readonly rerun = (runId: string, newRunId: string, origin: RunOrigin = {}) =>
    this.#admissions.rerun(runId, { runId: newRunId, origin });
  readonly untilFinished = (runId: string, signal: AbortSignal) => this.#finishes.wait(runId, signal);
  readonly watch = (onChange: () => void) => this.#feed.watch(onChange);
  readonly noteDelivery = (runId: string, note: DeliveryNote) =>
    noteDelivery(this.#context.link, runId, note);
  readonly drain = () => this.#admissions.drain();

  get triggers() {
    return this.#admissions.triggers;
  }

  /**
   * Adds pipelines for this host to run. Pipelines are never removed, because the runs already accepted for
   * them still need to be published. Throws `queue_unavailable`.
   */
  async addPipelines(pipelineIds: readonly string[]): Promise<void> {
    await this.#context.pipelines.add(pipelineIds);
    for (const id of pipelineIds) this.#dispatcher?.consider(id);
  }

  /** Checks that Redis can store data. Throws a `queue_unavailable` error if it cannot. */
  async check(): Promise<void> {
    const { clock, link } = this.#context;
    await link.ask(() => link.redis.set(link.key('probe'), clock.now().toISOString(), 'PX', probeLifeMs));
  }

  /** Reports whether this host is aborting the run in order to hand it over to another host. */
  isInterrupted(runId: string): boolean {
    return this.#dispatcher?.isInterrupted(runId) ?? false;
  }

  async resume(pipelineId: string): Promise<boolean> {
    const wasPaused = await this.#context.store.resume(pipelineId);
    this.#wake(pipelineId);
    return wasPaused;
  }

  async cancel(runId: string): Promise<Cancellation> {
    const { store, clock, retentionMs, discard } = this.#context;
    const found = await store.reads.find(runId);
    if (found === undefined) throw runUnknown();
    const cancelledRecord = cancelledRun(found, null, clock.now());
    const job = await store.admission.jobOf(runId);
    const rerunnable = job !== null && isRerunnable(job, cancelledRecord);
    const done = await store.cancel({ ...cancelledRecord, rerunnable }, retentionMs);
    if (done === null) throw runUnknown();
    const { outcome, record } = done;
    if (outcome === 'finished') {
      if (!isCancelled(record)) throw runFinished(record.status);
      return { outcome: 'repeated', record };
    }
    if (outcome === 'forgotten') {
      await this.#removeTicket(record.pipeline_id, runId);
      // Runs that were waiting behind this one may be able to start now.
      this.#wake(record.pipeline_id);
      await discard(done.job);
    }
    return { outcome, record };
  }

  async retryNow(runId: string): Promise<RunRecord> {
    const { store, clock, pipelines } = this.#context;
    const found = await store.reads.find(runId);
    const done = found === undefined ? null : await store.retryNow(makeRetryDue(found, clock.now()));
    if (done === null) throw runUnknown();
    const { outcome, record } = done;
    if (outcome === 'finished') throw nothingToRetry(record.status);
    if (outcome === 'due') {
      await pipelines.get(record.pipeline_id)?.promote(runId);
      this.#wake(record.pipeline_id);
    }
    return record;
  }

  async start(process: JobProcessor, observer: RunObserver = noRunObserver): Promise<void> {
    const { link, pipelines } = this.#context;
    this.#observer = observer;
    const worker = new RunWorker({ ...this.#context, process, observer });
    const wake = (pipelineId: string): void => this.#wake(pipelineId);
    const dispatcher = new Dispatcher({ ...this.#context, worker, wake });
    this.#dispatcher = dispatcher;
    const subscriber = link.another();
    subscriber.on('message', (from: string, id: string) =>
      from === this.#channel ? dispatcher.consider(id) : dispatcher.cancel(id),
    );
    const channels = [this.#channel, link.key('cancel')];
    // Subscribe on every connection, since automatic resubscription is turned off in `redis-client.ts`.
    subscriber.on('ready', () => void subscriber.subscribe(...channels).catch(() => undefined));
    for (const id of pipelines.ids) dispatcher.consider(id);
  }

  close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    return (this.#closed ??= this.#shutDown(timeoutMs));
  }

  async #shutDown(timeoutMs: number): Promise<{ unfinished: string[] }> {
    const { clock, link, pipelines } = this.#context;
    this.drain();
    const settled = Promise.all([this.#admissions.idle(), this.#dispatcher?.settled()]);
    await waitAtMost(clock, timeoutMs, settled);
    await this.#admissions.close();
    const unfinished = (await this.#dispatcher?.abort()) ?? [];
    await Promise.all([this.#housekeeping.close(), this.#finishes.close(), this.#feed.close()]);
    await pipelines.close();
    link.close();
    return { unfinished };
  }

  #wake(pipelineId: string): void {
    void this.#context.link.redis.publish(this.#channel, pipelineId).catch(() => undefined);
  }

  async #handOver(pipelineId: string, confirmed?: string): Promise<void> {
    await this.#context.pipelines.handOver(pipelineId, confirmed);
    this.#wake(pipelineId);
  }

  async #onAccepted(pipelineId: string, confirmed?: string): Promise<void> {
    try {
      await this.#supersede(pipelineId);
      await this.#handOver(pipelineId, confirmed);
    } catch (error) {
      const fields = { pipeline_id: pipelineId, err: error };
      this.#context.log.warn(fields, 'accepted; enqueued once redis answers');
    }
  }

  /**
   * Ends the pipeline's runs that are waiting for their next attempt but have been replaced by newer runs. If
   * this host dies first, such a run ends when its next attempt is due.
   */
  async #supersede(pipelineId: string): Promise<void> {
    const { store, clock, retries, retentionMs, onOutcome } = this.#context;
    for (const { job, record } of await store.claims.findRetrying(pipelineId)) {
      const newer = await store.claims.findNewer(job, retries(job.pipelineId));
      if (newer === undefined) continue;
      const supersededRecord = supersededRun(record, newer, clock.now());
      const next = { ...supersededRecord, rerunnable: isRerunnable(job, supersededRecord) };
      if (!(await store.claims.supersede(job, next, retentionMs))) continue;
      onOutcome(job, next);
      this.#observer.superseded({ pipelineId: job.pipelineId });
      await this.#removeTicket(job.pipelineId, job.runId);
    }
  }

  async #removeTicket(pipelineId: string, runId: string): Promise<void> {
    await this.#context.pipelines.get(pipelineId)?.remove(runId);
  }
}
