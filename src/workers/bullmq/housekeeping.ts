import { hasCode } from '../../core/lib/errors.ts';
import type { QueueContext } from './bullmq-options.ts';
import type { Dispatcher } from './dispatcher.ts';

interface HousekeepingOptions extends QueueContext {
  /** Returns the dispatcher, or undefined if this host has not started running jobs yet. */
  dispatcher: () => Dispatcher | undefined;
  /** Moves the pipeline's accepted runs from the outbox to BullMQ. */
  handOver: (pipelineId: string) => Promise<void>;
}

const tickMs = 1_000;
/** The maximum number of expired runs, and of abandoned archives, to remove per tick. */
const sweepLimit = 100;

/** The maintenance work that every host does once per second. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #closing = new AbortController();
  readonly #ticking: Promise<void>;
  #lastRescue = 0;
  /** The data of Redis in the last round; null before the first one. */
  #seen: { epoch: string; queued: number; running: number } | null = null;

  constructor(options: HousekeepingOptions) {
    this.#options = options;
    this.#ticking = this.#tick();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ticking;
  }

  /**
   * Runs one round of maintenance. If it keeps failing, only the first failure is logged. Outages are logged
   * by the Redis link.
   */
  async #tick(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#closing;
    let hasFailed = false;
    while (!signal.aborted) {
      try {
        await this.#sweep();
        hasFailed = false;
      } catch (error) {
        if (!hasFailed && !hasCode(error, 'queue_unavailable'))
          log.error({ err: error }, 'housekeeping of the queue failed');
        hasFailed = true;
      }
      await clock.sleep(tickMs, signal).catch(() => undefined);
    }
  }

  async #sweep(): Promise<void> {
    const { link, store, pipelines, keep, shared, handOver, discard, onExpire } = this.#options;
    if (link.upForMs() === 0) return;
    store.confirmation.check();
    await pipelines.reopen();
    for (const pipelineId of await store.outboxes()) await handOver(pipelineId);
    const dispatcher = this.#options.dispatcher();
    if (dispatcher !== undefined) {
      if (this.#isRescueDue()) await pipelines.rescue();
      for (const id of await store.waiting(pipelines.ids)) dispatcher.consider(id);
      for (const id of await store.claims.findCancelled(dispatcher.runIds)) dispatcher.cancel(id);
    }
    for (const job of await store.overkept(keep, sweepLimit)) await discard(job);
    for (const { runId, job } of await store.expired(sweepLimit)) {
      if (job !== null) await onExpire(job);
      await store.forget(runId);
    }
    for (const name of await store.unwanted(sweepLimit)) {
      await shared.remove(name);
      await store.forgetStaged(name);
    }
    // Last, because nothing depends on it, and it fails if another program has overwritten the epoch.
    await this.#noticeDataLoss();
  }

  /**
   * Logs that Redis lost its data, because the runs that were waiting are gone together with their records.
   * `FLUSHALL` does that, and so does a restart of a Redis that stores nothing.
   */
  async #noticeDataLoss(): Promise<void> {
    const { store, log } = this.#options;
    const { epoch } = await store.reads.changes(null, 1);
    if (this.#seen !== null && this.#seen.epoch !== epoch)
      log.error(
        { queued: this.#seen.queued, running: this.#seen.running },
        'Redis has lost its data: queued runs are gone, with the records of all runs; upload their bundles again',
      );
    const { queued, running } = await store.reads.depth();
    this.#seen = { epoch, queued, running };
  }

  #isRescueDue(): boolean {
    const { clock, link, workerTimeoutMs } = this.#options;
    const now = clock.monotonic();
    if (link.upForMs() < workerTimeoutMs || now - this.#lastRescue < workerTimeoutMs / 3) return false;
    this.#lastRescue = now;
    return true;
  }
}
