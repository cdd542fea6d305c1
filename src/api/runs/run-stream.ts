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
  streams: Streams;
  /** Aborts when the daemon starts to shut down. */
  draining: AbortSignal;
}

/** The runs that a client follows. */
export interface Followed {
  wants: (record: Readonly<RunRecord>) => boolean;
  /** The current runs, for a client that has no valid cursor. */
  snapshot: () => Promise<{ runs: readonly RunRecord[]; next: string | null }>;
  /** Whether this record is the last event of the stream. */
  isLast: (record: Readonly<RunRecord>) => boolean;
  /** Whether no more events were possible when the request arrived. */
  isOver: boolean;
  /** Why the client may no longer follow; null if it may. Called once a second. */
  refusal: () => 'token_expired' | 'token_revoked' | null;
}

const changesAtOnce = 100;
const beatMs = 15_000;
const patienceMs = 30_000;
/** How long a client waits before it reconnects, in milliseconds. */
const retryMs = 3_000;

/**
 * Sends run changes as server-sent events until the client disconnects, the daemon stops, or no more changes
 * are possible. No events are stored per client. A client's cursor is the `id` of its last event. Reading
 * continues there as fast as the client accepts events. A slow or returning client can miss intermediate
 * records, but never the newest record of a run.
 *
 * Errors before the head is sent are thrown: `quota_exceeded`, `too_many_streams`, `queue_unavailable`, and
 * those of `followed.snapshot`. Later errors of the queue pause the stream until the queue is reachable
 * again.
 */
export async function streamRuns(
  req: IncomingMessage,
  res: Response,
  followed: Followed,
  ports: StreamPorts,
): Promise<void> {
  const close = ports.streams.open(callerOf(req).owner);
  const bell = newBell();
  const watch = ports.queue.watch(bell.ring);
  let end: StreamEnd | null = null;
  try {
    const begun = ports.draining.aborted
      ? { cursor: lastCursor(req), first: null }
      : await begin(req, followed, watch);
    if (begun === null) {
      res.status(204).end();
      return;
    }
    if (res.destroyed) return;
    end = 'failed';
    const stream = openEventStream(res, { clock: ports.clock, patienceMs });
    if (req.method === 'HEAD') stream.end('');
    else end = await new RunStream(stream, { ...ports, followed, watch, bell }).run(begun);
    requestContext(req).sent = stream.bytes();
    requestContext(req).fields['stream_end'] = end;
  } finally {
    watch.close();
    close(end);
  }
}

interface Beginning {
  /** The id of the client's last event; null if it no longer matters. */
  cursor: string | null;
  /** The event to send first. */
  first: string | null;
  /** Whether nothing can follow the first event. */
  isOver?: boolean;
}

/** Returns null if there is nothing to send, now or later. */
async function begin(req: IncomingMessage, followed: Followed, watch: RunWatch): Promise<Beginning | null> {
  const last = lastCursor(req);
  if (last === null) return anew(followed, watch, 'start');
  const page = await watch.after(last, { most: 1, wants: followed.wants });
  if (page === null) return anew(followed, watch, 'gap');
  const isSeen = page.changes.length === 0 && !page.more;
  return isSeen && followed.isOver ? null : { cursor: last, first: null };
}

/** Returns the client's `Last-Event-ID`; null if it has received no event. */
function lastCursor(req: IncomingMessage): string | null {
  const last = req.headers['last-event-id'];
  return typeof last === 'string' && last !== '' ? last : null;
}

/** Reads the cursor before the snapshot: a change in between is then sent twice rather than lost. */
async function anew(
  followed: Followed,
  watch: RunWatch,
  reason: 'start' | 'gap',
): Promise<Beginning & { cursor: string }> {
  const cursor = await watch.cursor();
  const snapshot = await followed.snapshot();
  const data = JSON.stringify({ reason, ...snapshot });
  const first = frameOf({ event: 'snapshot', id: cursor, data });
  return { cursor, first, isOver: snapshot.runs.some(followed.isLast) };
}

interface RunStreamParts extends StreamPorts {
  followed: Followed;
  watch: RunWatch;
  bell: Bell;
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

  /** Resolves with the reason for the end of the stream. */
  async run(begun: Beginning): Promise<StreamEnd> {
    const { clock, draining, bell, followed } = this.#parts;
    const over = this.#stream.over;
    this.#cursor = begun.cursor;
    const stop = (): void => this.#finish('shutting_down');
    const beat = clock.every(beatMs, () => {
      // An id without data only updates the client's last event id.
      this.#stream.beat(this.#cursor === null ? ':\n\n' : `:\nid: ${this.#cursor}\n\n`);
      bell.ring();
    });
    const check = clock.every(recheckMs, () => {
      const refusal = followed.refusal();
      if (refusal !== null) this.#finish(refusal);
    });
    const release = onAbort(draining, stop);
    try {
      await this.#sendFirst(begun);
      while (!over.aborted) if (!(await this.#sendPage())) await bell.wait(over);
    } finally {
      beat.cancel();
      check.cancel();
      release();
    }
    if (over.reason === 'too_slow') this.#finish('too_slow');
    return this.#end ?? 'client_left';
  }

  async #sendFirst({ cursor, first, isOver = false }: Beginning): Promise<void> {
    if (first !== null && (await this.#stream.send(first))) this.#cursor = cursor;
    if (isOver) this.#finish('finished');
  }

  /** Resolves with whether more changes are ready to send. */
  async #sendPage(): Promise<boolean> {
    const page = await this.#nextPage();
    for (const change of page?.changes ?? []) {
      if (!(await this.#stream.send(this.#parts.streams.frameOf(change)))) return false;
      this.#cursor = change.cursor;
      if (this.#parts.followed.isLast(change.record)) this.#finish('finished');
    }
    this.#cursor = page?.cursor ?? this.#cursor;
    return page?.more ?? false;
  }

  /** Resolves with null while the queue is unreachable. */
  async #nextPage(): Promise<ChangePage | null> {
    const { watch, followed } = this.#parts;
    try {
      const query = { most: changesAtOnce, wants: followed.wants };
      const page = await watch.after(this.#cursor ?? '', query);
      if (page !== null) return page;
      const begun = await anew(followed, watch, 'gap');
      await this.#sendFirst(begun);
      return { changes: [], cursor: begun.cursor, more: true };
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

/** A signal that is kept until a waiter has received it. */
interface Bell {
  ring: () => void;
  /** Resolves if the bell was rung since the last wait began, or when `signal` aborts. */
  wait(signal: AbortSignal): Promise<void>;
}

/** Creates a bell for one waiter and any number of ringers. */
function newBell(): Bell {
  let isRung = false;
  let wake: () => void = () => undefined;
  return {
    ring: () => {
      isRung = true;
      wake();
    },
    wait: async (signal) => {
      if (!isRung && !signal.aborted)
        await new Promise<void>((resolve) => {
          const release = onAbort(signal, () => wake());
          wake = () => {
            release();
            resolve();
          };
        });
      isRung = false;
    },
  };
}
