import type { Occurrence } from '../../core/notify/event.ts';
import {
  noOutbox,
  type Outbox,
  type UndeliveredEvents,
  undeliveredInMemory,
} from '../../core/notify/outbox.ts';
import { retryOccurrence, runFailure } from '../../core/publish/results/occurrences.ts';
import { type TraceContext, traceOf } from '../../core/tracing/trace-context.ts';
import type { PublishJob } from './job.ts';
import type { DeliveryNotes } from './job-queue.ts';
import type { DeliveryNote, RunRecord } from './run-record.ts';
import { isRetrying } from './run-retry.ts';

/** Stores a process's events along with its queue, so that they survive as long as its runs. */
export interface EventStore {
  readonly outbox: Outbox;
  /** The undelivered events of all hosts. */
  readonly undelivered: UndeliveredEvents;
  /**
   * Resolves once every event so far has been stored outside this process, or could not be. Never rejects.
   */
  flushed(): Promise<void>;
  /** Adds the state of a delivery to the record of its run. Returns immediately and never throws. */
  note(runId: string, note: DeliveryNote): void;
  /** Sets the queue that has the records. Called once the queue is open. */
  attach(queue: DeliveryNotes): void;
  /** Waits up to a few seconds for pending writes. Call this after the notifiers are closed. */
  close(): Promise<void>;
}

/**
 * Creates the event store of a single-process queue. `kept` stores the events outside the process. If it is
 * null, events only exist in memory.
 */
export function eventsOfOneProcess(
  kept: Pick<EventStore, 'outbox' | 'undelivered'> | null,
  onDropped: (notifierId: string, count: number) => void,
): EventStore {
  const { outbox, undelivered } = kept ?? {
    outbox: noOutbox,
    undelivered: undeliveredInMemory({ onDropped }),
  };
  let queue: DeliveryNotes | undefined;
  const early: [runId: string, note: DeliveryNote][] = [];
  return {
    outbox,
    undelivered,
    // The journal writes everything in order, so events are written before the end of their run.
    flushed: async () => undefined,
    note: (runId, note) => {
      if (queue === undefined) early.push([runId, note]);
      else void queue.noteDelivery(runId, note);
    },
    attach: (opened) => {
      queue = opened;
      for (const [runId, note] of early.splice(0)) void opened.noteDelivery(runId, note);
    },
    close: async () => undefined,
  };
}

type Notify = (occurrence: Occurrence, trace?: TraceContext) => void;

/**
 * Holds back notifier events about failures, as long as the run may still be retried. If a failure has a
 * temporary cause, its event waits for the queue to decide. If the run is retried, a `run.retry_scheduled`
 * event is sent instead.
 */
export class RunEventBuffer {
  readonly #notify: Notify;
  /** Keyed by run id. */
  readonly #held = new Map<string, { occurrence: Occurrence; trace: TraceContext | undefined }[]>();

  constructor(notify: Notify) {
    this.#notify = notify;
  }

  /** Called when a new attempt of the run starts. */
  begin(runId: string): void {
    this.#held.delete(runId);
  }

  /** Sends an event of the current attempt, or holds it back. */
  add(occurrence: Occurrence, trace?: TraceContext): void {
    const { type, data } = occurrence;
    if (type !== 'bundle.publish_failed' || data.run_id === null || !data.error.retryable) {
      this.#notify(occurrence, trace);
      return;
    }
    const held = this.#held.get(data.run_id) ?? [];
    this.#held.set(data.run_id, held);
    held.push({ occurrence, trace });
  }

  /** Called when the queue has decided how the attempt ends. `next` is the run's new record. */
  decided(job: PublishJob, next: RunRecord): void {
    const held = this.#held.get(job.runId) ?? [];
    this.#held.delete(job.runId);
    if (isRetrying(next)) this.#notify(nextTry(next), traceOf(job));
    else if (next.error?.code === 'superseded')
      this.#notify(runFailure(job.pipelineId, job.runId, next.error), traceOf(job));
    else for (const { occurrence, trace } of held) this.#notify(occurrence, trace);
  }
}

function nextTry({
  pipeline_id,
  run_id,
  attempt,
  next_try_at: nextTryAt,
  retry_until: until,
  last_error: error,
  destinations,
}: RunRecord): Occurrence {
  if (nextTryAt === null || until === null || error === null)
    throw new TypeError(`${run_id} waits for no try`);
  const destination = destinations.find((one) => one.error === error)?.destination_id ?? null;
  const times = { next_try_at: nextTryAt, retry_until: until };
  return retryOccurrence({ pipeline_id, destination_id: destination, run_id, attempt, ...times, error });
}
