import pMap from 'p-map';
import { waitAtMost } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { RunStore } from './run-store.ts';
import { TicketQueue, type TicketQueueOptions } from './tickets.ts';

interface PipelinesOptions extends TicketQueueOptions {
  store: RunStore;
  pipelineIds: readonly string[];
}

/**
 * Limits how many queues are opened at once. Opening hundreds of them would keep the event loop from reading
 * replies, so calls would time out and Redis would seem unreachable.
 */
const maxConcurrentOpens = 8;
const addWithinMs = 10_000;
/** How often the tickets of all unfinished runs are added again in a Cluster, in milliseconds. */
const reopenEveryMs = 30_000;

/** The BullMQ queues of all pipelines. */
export class Pipelines {
  readonly #options: PipelinesOptions;
  readonly #queues = new Map<string, TicketQueue>();
  /** The queues that are being opened, possibly by a call to `add` that did not wait for them. */
  readonly #opening = new Map<string, Promise<void>>();
  #isClosed = false;
  /** Counts how often the connection to a node came up or went down. Every failover changes it. */
  #disruptions = 0;
  #reopened = { at: -Infinity, disruptions: 0 };

  private constructor(options: PipelinesOptions) {
    this.#options = options;
    for (const event of ['ready', 'close', '+node', '-node'])
      options.link.redis.on(event, () => (this.#disruptions += 1));
  }

  /** Opens a queue for each pipeline. Throws `queue_unavailable`. */
  static async open(options: PipelinesOptions): Promise<Pipelines> {
    const pipelines = new Pipelines(options);
    await pipelines.#open(options.pipelineIds);
    return pipelines;
  }

  get ids(): string[] {
    return [...this.#queues.keys()];
  }

  /** Returns a pipeline's queue, or undefined if this host does not know the pipeline. */
  get(pipelineId: string): TicketQueue | undefined {
    return this.#queues.get(pipelineId);
  }

  /**
   * Opens queues for the pipelines that do not have one yet. Throws `queue_unavailable` if Redis is
   * unreachable or too slow.
   */
  async add(pipelineIds: readonly string[]): Promise<void> {
    const { link, clock } = this.#options;
    // BullMQ would wait for a connection forever, so check first.
    await link.ask(() => link.redis.ping());
    if (!(await waitAtMost(clock, addWithinMs, this.#open(pipelineIds))))
      throw new WaybillError('queue_unavailable', 'the queue in Redis did not answer in time', {
        hint: 'try again once Redis is back',
      });
  }

  /**
   * Moves accepted runs from the outbox to the pipeline's queue, in the order in which they were accepted.
   * It is idempotent, and several hosts can safely call it at the same time. `confirmed` is a run that a
   * replica has just confirmed.
   */
  async handOver(pipelineId: string, confirmed?: string): Promise<void> {
    const { store } = this.#options;
    const queue = this.#queues.get(pipelineId);
    if (queue === undefined) return;
    await this.reopen();
    // Hosts read the outbox before they add anything, and the runs come in ascending order. If a run has
    // disappeared from the outbox in the meantime, another host has already queued it.
    const runIds = await store.outbox(pipelineId, confirmed);
    if (runIds.length === 0) return;
    await queue.add(runIds);
    await store.handedOver(pipelineId, runIds);
  }

  /**
   * Puts all unfinished runs back into the outboxes if a failover may have lost their tickets. Every host
   * does this before it adds a ticket, so no newer ticket gets ahead of a lost one. A ticket that still
   * exists is not added twice. Only a Cluster keeps runs and tickets on different nodes. Anywhere else, a
   * failover that loses a ticket also returns its run to the outbox.
   */
  async reopen(): Promise<void> {
    const { store, clock, link } = this.#options;
    if (link.server.isCluster !== true) return;
    const at = clock.monotonic();
    const disruptions = this.#disruptions;
    if (disruptions === this.#reopened.disruptions && at - this.#reopened.at < reopenEveryMs) return;
    await store.reopen(this.ids);
    this.#reopened = { at, disruptions };
  }

  /** Puts dead workers' jobs back at the head of their queues. */
  async rescue(): Promise<void> {
    for (const [pipelineId, queue] of this.#queues)
      for (const runId of await queue.rescue())
        this.#options.log.warn(
          { run_id: runId, pipeline_id: pipelineId },
          'the worker of this run has ended; the run waits for another worker',
        );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }

  async #open(pipelineIds: readonly string[]): Promise<void> {
    await pMap(pipelineIds, async (id) => this.#openOnce(id), { concurrency: maxConcurrentOpens });
  }

  async #openOnce(id: string): Promise<void> {
    if (this.#queues.has(id) || this.#isClosed) return;
    let opening = this.#opening.get(id);
    if (opening === undefined) {
      opening = this.#openOne(id).finally(() => this.#opening.delete(id));
      this.#opening.set(id, opening);
    }
    await opening;
  }

  async #openOne(id: string): Promise<void> {
    const queue = await TicketQueue.open(id, this.#options);
    if (this.#isClosed) await queue.close();
    else this.#queues.set(id, queue);
  }
}
