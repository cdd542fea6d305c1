import { randomUUID } from 'node:crypto';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import { cancelled } from '../queue/refusals.ts';
import type { QueueContext } from './bullmq-options.ts';
import type { RunWorker } from './run-worker.ts';
import type { Ticket } from './tickets.ts';

interface DispatcherOptions extends QueueContext {
  worker: RunWorker;
  /** Notifies all hosts that the pipeline may have a job waiting. */
  wake: (pipelineId: string) => void;
}

interface Running {
  runId: string;
  abort: AbortController;
  done: Promise<void>;
  beat: () => void;
}

/**
 * Claims jobs and runs them, as long as this process has a free slot.
 *
 * `candidates` holds the pipelines that may have a job waiting. A host announces a pipeline when it adds a
 * job, or when a job ends and another one is waiting behind it. Once per second, all pipelines with waiting
 * runs are added as well, in case a message got lost. Claiming a job is a single call. It returns a locked
 * job, or nothing if there is not one or if another host is already running one for this pipeline. Paused
 * pipelines are skipped, and the store checks for that again before it hands out the run.
 *
 * While a run is in progress, a heartbeat renews the worker's hold on the run and BullMQ's lock on its job.
 * The run goes on even if Redis becomes unreachable. The hold and the lock may both expire then, but no other
 * host can claim the run as long as Redis is down. Once Redis is back, the heartbeat resumes before any host
 * starts looking for stalled jobs (see `bullmq-queue.ts`). BullMQ may still return the job to the queue,
 * where it stays until the run has ended.
 *
 * If only this host lost its connection, another worker may have claimed the run in the meantime. This host
 * then aborts its run and discards the outcome. Until it notices, the lease at the destination keeps the two
 * workers from interfering with each other.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #candidates = new Set<string>();
  /** Keyed by pipeline. */
  readonly #running = new Map<string, Running>();
  readonly #requeued: string[] = [];
  #pumping: Promise<void> | undefined;
  #isStopped = false;
  #isFull = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    options.link.redis.on('ready', () => [...this.#running.values()].forEach(({ beat }) => beat()));
  }

  /** Claims the pipeline's next job, provided that there is one and a slot is free. */
  consider(pipelineId: string): void {
    if (!this.#isStopped) this.#consider(pipelineId);
  }

  /** The ids of the runs in progress on this host. */
  get runIds(): string[] {
    return [...this.#running.values()].map(({ runId }) => runId);
  }

  /** Stops a cancelled run if it is in progress on this host. */
  cancel(runId: string): void {
    this.#find(runId)?.abort.abort(cancelled());
  }

  /** Reports whether this host is aborting the run in order to hand it over to another worker. */
  isInterrupted(runId: string): boolean {
    const signal = this.#find(runId)?.abort.signal;
    return signal?.aborted === true && !hasCode(signal.reason, 'cancelled');
  }

  /** Stops claiming jobs, and resolves once the ones in progress have finished. */
  async settled(): Promise<void> {
    this.#isStopped = true;
    await this.#pumping;
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  /** Aborts this host's runs and returns them to the queue for other hosts. Resolves with their ids. */
  async abort(): Promise<string[]> {
    const text = 'this worker stopped before the run ended; another worker repeats it';
    const reason = new WaybillError('aborted', text);
    const timer = this.#options.worker.stop();
    for (const { abort } of this.#running.values()) abort.abort(reason);
    await this.settled();
    timer.cancel();
    return this.#requeued;
  }

  #find(runId: string): Running | undefined {
    return [...this.#running.values()].find((one) => one.runId === runId);
  }

  #consider(pipelineId: string): void {
    const { clock, log } = this.#options;
    this.#candidates.add(pipelineId);
    this.#pumping ??= this.#pump()
      .catch((error: unknown) => log.debug({ err: error }, 'requesting a job failed'))
      .finally(() => {
        this.#pumping = undefined;
        // A candidate may have been added after the pump's last check.
        if (!this.#isStopped && !this.#isFull && this.#nextCandidate() !== undefined)
          void clock.sleep(100).then(() => this.#considerNext());
      });
  }

  #considerNext(): void {
    const pipelineId = this.#nextCandidate();
    if (pipelineId !== undefined) this.consider(pipelineId);
  }

  #nextCandidate(): string | undefined {
    return [...this.#candidates].find((id) => !this.#running.has(id));
  }

  async #pump(): Promise<void> {
    this.#isFull = false;
    for (let id = this.#nextCandidate(); id !== undefined; id = this.#nextCandidate()) {
      if (this.#isStopped) return;
      this.#isFull = this.#running.size >= this.#options.maxConcurrency;
      if (this.#isFull) return;
      this.#candidates.delete(id);
      await this.#beginNext(id);
    }
  }

  /** Starts the pipeline's next run, if this host is able to claim it. */
  async #beginNext(pipelineId: string): Promise<void> {
    const { store, pipelines } = this.#options;
    if (!(await store.mayTake(pipelineId))) return;
    const ticket = await pipelines.get(pipelineId)?.next(randomUUID());
    if (ticket !== undefined) this.#begin(ticket);
  }

  #begin(ticket: Ticket): void {
    const { store, worker, clock, log, workerTimeoutMs } = this.#options;
    const { runId, pipelineId, token } = ticket;
    const abort = new AbortController();
    const hold = async (): Promise<void> => {
      if (!(await store.claims.renew(runId, token, workerTimeoutMs)))
        abort.abort(new WaybillError('lease_lost', 'another worker has taken this run over'));
    };
    const beat = (): void => {
      for (const renewal of [ticket.hold(), hold()]) void renewal.catch(() => undefined);
    };
    const heartbeat = clock.every(workerTimeoutMs / 4, beat);
    const done = worker
      .run(ticket, abort.signal)
      .then((isRequeued) => {
        if (isRequeued) this.#requeued.push(runId);
      })
      .catch((error: unknown) =>
        log.error(
          { run_id: runId, err: error },
          'the result of a run could not be recorded; another worker repeats the run',
        ),
      )
      .finally(() => {
        heartbeat.cancel();
        this.#running.delete(pipelineId);
        this.#considerNext();
        return this.#continuePipeline(pipelineId);
      });
    this.#running.set(pipelineId, { runId, abort, done, beat });
  }

  /**
   * Starts the pipeline's next run. Called after the previous job has ended, so that runs added in the
   * meantime are noticed. If nothing is waiting, there is no need to wake the other workers, since adding a
   * run will do that.
   */
  async #continuePipeline(pipelineId: string): Promise<void> {
    const { store, wake } = this.#options;
    // If Redis does not respond, assume that a run is waiting.
    const waiting = await store.waiting([pipelineId]).catch(() => [pipelineId]);
    if (waiting.length === 0) return;
    wake(pipelineId);
    this.#consider(pipelineId);
  }
}
