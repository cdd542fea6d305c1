import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunFollower } from '../../workers/queue/job-queue.ts';
import type { ChangePage, RunWatch } from '../../workers/queue/run-changes.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import { recheckMs, requestContext } from '../http/request/request-context.ts';
import { callerOf } from '../http/request/shares.ts';
import { type EventStream, frameOf, openEventStream, type StreamEnd, type Streams } from './event-stream.ts';

interface StreamPorts {
  queue: Pick<RunFollower, 'watch'>;
  clock: Clock;
  runs: { streams: Streams };
  /** Aborted when the daemon begins to shut down. */
  draining: AbortSignal;
}

/** Selects the runs that a client follows. */
export interface RunSubscription {
  wants: (record: Readonly<RunRecord>) => boolean;
  /** Returns the current state of the runs, for clients that do not continue an earlier stream. */
  snapshot: () => Promise<{ runs: readonly RunRecord[]; next: string | null }>;
  /** Reports whether this record is the last one to send. */
  isLast: (record: Readonly<RunRecord>) => boolean;
  /** True if there was nothing left to wait for when the request arrived. */
  isOver: boolean;
  /**
   * Returns the reason if the client may no longer follow these runs, or null if it may. Called once a
   * second.
   */
  refusal: () => 'token_expired' | 'token_revoked' | null;
}

const changesPerPage = 100;
const heartbeatMs = 15_000;
const stallTimeoutMs = 30_000;
/** The time that clients wait before they reconnect, in milliseconds. */
const retryMs = 3_000;

/**
 * Streams run changes as server-sent events until the client disconnects, the daemon stops, or no more
 * changes can follow. Nothing is buffered per client: the `id` of the last event is a cursor into the queue's
 * changes, and more are read from there as fast as the client accepts them. A client that is slow or
 * reconnects can miss intermediate records, but always gets the latest record of each run.
 *
 * Before the head is sent, throws `quota_exceeded`, `too_many_streams`, `queue_unavailable`, and the errors
 * of `subscription.snapshot`. If the queue fails later, the stream pauses until the queue is available again.
 */
export async function streamRuns(
  req: IncomingMessage,
  res: Response,
  subscription: RunSubscription,
  ports: StreamPorts,
): Promise<void> {
  const close = ports.runs.streams.open(callerOf(req).owner);
  const changed = newChangeSignal();
  const watch = ports.queue.watch(changed.notify);
  let end: StreamEnd | null = null;
  try {
    const start = ports.draining.aborted
      ? { cursor: lastCursor(req), first: null }
      : await startStream(req, subscription, watch);
    if (start === null) {
      res.status(204).end();
      return;
    }
    if (res.destroyed) return;
    end = 'failed';
    const stream = openEventStream(res, { clock: ports.clock, stallTimeoutMs });
    if (req.method === 'HEAD') stream.end('');
    else end = await new RunStream(stream, { ...ports, subscription, watch, changed }).run(start);
    requestContext(req).sent = stream.bytes();
    requestContext(req).fields['stream_end'] = end;
  } finally {
    watch.close();
    close(end);
  }
}

interface StreamStart {
  /** The id of the last event that the client got; null if it is no longer needed. */
  cursor: string | null;
  /** The event to begin with. */
  first: string | null;
  /** True if nothing can follow after the first event. */
  isOver?: boolean;
}

/** Decides where the stream starts. Returns null if there will never be anything to send. */
async function startStream(
  req: IncomingMessage,
  subscription: RunSubscription,
  watch: RunWatch,
): Promise<StreamStart | null> {
  const last = lastCursor(req);
  if (last === null) return startFromSnapshot(subscription, watch, 'start');
  const page = await watch.after(last, { limit: 1, wants: subscription.wants });
  if (page === null) return startFromSnapshot(subscription, watch, 'gap');
  const isSeen = page.changes.length === 0 && !page.more;
  return isSeen && subscription.isOver ? null : { cursor: last, first: null };
}

/** Returns the client's `Last-Event-ID`, or null if it is not continuing an earlier stream. */
function lastCursor(req: IncomingMessage): string | null {
  const last = req.headers['last-event-id'];
  return typeof last === 'string' && last !== '' ? last : null;
}

/**
 * Gets the cursor before taking the snapshot. A change that happens in between is then sent twice, rather
 * than lost.
 */
async function startFromSnapshot(
  subscription: RunSubscription,
  watch: RunWatch,
  reason: 'start' | 'gap',
): Promise<StreamStart & { cursor: string }> {
  const cursor = await watch.cursor();
  const snapshot = await subscription.snapshot();
  const data = JSON.stringify({ reason, ...snapshot });
  const first = frameOf({ event: 'snapshot', id: cursor, data });
  return { cursor, first, isOver: snapshot.runs.some(subscription.isLast) };
}

interface RunStreamParts extends StreamPorts {
  subscription: RunSubscription;
  watch: RunWatch;
  changed: RunChangeSignal;
}

class RunStream {
  readonly #stream: EventStream;
  readonly #parts: RunStreamParts;
  #cursor: string | null = null;
  #end: StreamEnd | null = null;

  constructor(stream: EventStream, parts: RunStreamParts) {
    this.#stream = stream;
    this.#parts = parts;
  }

  /** Resolves to the reason why the stream ended. */
  async run(start: StreamStart): Promise<StreamEnd> {
    const { clock, draining, changed, subscription } = this.#parts;
    const over = this.#stream.over;
    this.#cursor = start.cursor;
    const stop = (): void => this.#finish('shutting_down');
    const heartbeat = clock.every(heartbeatMs, () => {
      // Without data, this only updates the last event id that the client remembers.
      this.#stream.heartbeat(this.#cursor === null ? ':\n\n' : `:\nid: ${this.#cursor}\n\n`);
      changed.notify();
    });
    const check = clock.every(recheckMs, () => {
      const refusal = subscription.refusal();
      if (refusal !== null) this.#finish(refusal);
    });
    const release = onAbort(draining, stop);
    try {
      await this.#sendFirst(start);
      while (!over.aborted) if (!(await this.#sendPage())) await changed.wait(over);
    } finally {
      heartbeat.cancel();
      check.cancel();
      release();
    }
    if (over.reason === 'too_slow') this.#finish('too_slow');
    return this.#end ?? 'client_left';
  }

  async #sendFirst({ cursor, first, isOver = false }: StreamStart): Promise<void> {
    if (first !== null && (await this.#stream.send(first))) this.#cursor = cursor;
    if (isOver) this.#finish('finished');
  }

  /** Resolves to true if there are more changes to send right away. */
  async #sendPage(): Promise<boolean> {
    const page = await this.#nextPage();
    for (const change of page?.changes ?? []) {
      if (!(await this.#stream.send(this.#parts.runs.streams.frameOf(change)))) return false;
      this.#cursor = change.cursor;
      if (this.#parts.subscription.isLast(change.record)) this.#finish('finished');
    }
    this.#cursor = page?.cursor ?? this.#cursor;
    return page?.more ?? false;
  }

  /** Resolves to null while the queue is unavailable. */
  async #nextPage(): Promise<ChangePage | null> {
    const { watch, subscription } = this.#parts;
    try {
      const query = { limit: changesPerPage, wants: subscription.wants };
      const page = await watch.after(this.#cursor ?? '', query);
      if (page !== null) return page;
      const start = await startFromSnapshot(subscription, watch, 'gap');
      await this.#sendFirst(start);
      return { changes: [], cursor: start.cursor, more: true };
    } catch (error) {
      if (hasCode(error, 'queue_unavailable')) return null;
      throw error;
    }
  }

  #finish(reason: StreamEnd): void {
    this.#end ??= reason;
    const data = JSON.stringify({ reason });
    this.#stream.end(`retry: ${retryMs}\n${frameOf({ event: 'end', id: this.#cursor, data })}`);
  }
}

/** Wakes up a waiting task. If nothing is waiting, the next `wait` returns immediately. */
interface RunChangeSignal {
  notify: () => void;
  /** Resolves once `notify` has been called since the previous wait, or when `signal` is aborted. */
  wait(signal: AbortSignal): Promise<void>;
}

/** Only one task may wait at a time. */
function newChangeSignal(): RunChangeSignal {
  let isNotified = false;
  let wake: () => void = () => undefined;
  return {
    notify: () => {
      isNotified = true;
      wake();
    },
    wait: async (signal) => {
      if (!isNotified && !signal.aborted)
        await new Promise<void>((resolve) => {
          const release = onAbort(signal, () => wake());
          wake = () => {
            release();
            resolve();
          };
        });
      isNotified = false;
    },
  };
}
