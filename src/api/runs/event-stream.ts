import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunChange } from '../../workers/queue/run-changes.ts';
import { createShares } from '../http/request/shares.ts';

/** Why a stream ended. Clients receive the first five. */
const streamEnds = [
  'finished',
  'shutting_down',
  'too_slow',
  'token_expired',
  'token_revoked',
  'client_left',
  'failed',
] as const;
export type StreamEnd = (typeof streamEnds)[number];

export interface StreamStats {
  open: number;
  /** How many have ended since the start, by why. */
  ended: Readonly<Record<StreamEnd, number>>;
}

/** Counts the streams of events of this process, and bounds how many are open at once. */
export interface Streams {
  /**
   * Opens one for this caller. The function returned is to be called once, with why the stream ended, or with
   * null if it never began. Throws `quota_exceeded` if the caller has as many as it may have, and
   * `too_many_streams` if all callers together have.
   */
  open(owner: string): (end: StreamEnd | null) => void;
  /** The change as an event. Made once for all streams, since many of them send it at the same time. */
  frameOf(change: RunChange): string;
  stats: () => StreamStats;
}

/** Events that are kept for the next stream to send. */
const maxFrames = 100;

export function createStreams(most: number, perOwner: number): Streams {
  const ended = Object.fromEntries(streamEnds.map((end) => [end, 0])) as Record<StreamEnd, number>;
  const frames = new Map<string, string>();
  const shares = createShares({ total: most, perOwner });
  return {
    open: (owner) => {
      const refusedBy = shares.take(owner, 1);
      if (refusedBy === 'owner')
        throw new WaybillError('quota_exceeded', `this client has ${perOwner} streams of events open`, {
          hint: 'close one, or ask for the record with `?wait=30`',
        });
      if (refusedBy === 'total')
        throw new WaybillError('too_many_streams', `all ${most} streams of events are taken`, {
          hint: 'try again later, or ask for the record with `?wait=30`',
        });
      return (end) => {
        shares.give(owner, 1);
        if (end !== null) ended[end] += 1;
      };
    },
    frameOf: ({ cursor, record }) => {
      const known = frames.get(cursor);
      if (known !== undefined) return known;
      const frame = frameOf({ event: 'run', id: cursor, data: JSON.stringify(record) });
      frames.set(cursor, frame);
      const [oldest] = frames.keys();
      if (oldest !== undefined && frames.size > maxFrames) frames.delete(oldest);
      return frame;
    },
    stats: () => ({ open: shares.taken(), ended: { ...ended } }),
  };
}

/** One server-sent event. */
interface ServerEvent {
  event: string;
  /** Null: the client keeps the id that it has. */
  id: string | null;
  /** JSON, on one line. */
  data: string;
}

/** The event as it is sent. Pure. */
export function frameOf({ event, id, data }: ServerEvent): string {
  return `event: ${event}\n${id === null ? '' : `id: ${id}\n`}data: ${data}\n\n`;
}

/** Server-sent events on one response. At most one event more than the socket buffers is held in memory. */
export interface EventStream {
  /**
   * Sends an event. Resolves when the next one may be sent: with false if there will be none, because the
   * client has left, did not read for too long, or `end` was called.
   */
  send(frame: string): Promise<boolean>;
  /** Sends a comment or the like, unless the client has not even read what was sent before. */
  beat(frame: string): void;
  /** Sends a last event and closes; does nothing on a stream that has ended. */
  end(frame: string): void;
  /** Aborts when the stream has ended; the reason is `too_slow`, `client_left` or `ended`. */
  over: AbortSignal;
  /** Bytes that were written. */
  bytes(): number;
}

interface EventStreamOptions {
  clock: Clock;
  /** How long a client may leave unread what was sent, in milliseconds. */
  patienceMs: number;
}

/** How long the last event of a stream may take to leave. */
const lastWordsMs = 5_000;

/** Sends the head, at once, so that the client knows of it before there is an event. */
export function openEventStream(res: ServerResponse, { clock, patienceMs }: EventStreamOptions): EventStream {
  const over = new AbortController();
  let [bytes, isWaiting] = [0, false];
  res.statusCode = 200;
  res.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
  // nginx would wait until its buffer is full.
  res.setHeader('X-Accel-Buffering', 'no');
  res.flushHeaders();
  res.once('close', () => over.abort('client_left'));

  const write = (frame: string): boolean => {
    bytes += Buffer.byteLength(frame);
    return res.write(frame);
  };
  return {
    over: over.signal,
    bytes: () => bytes,
    send: async (frame) => {
      if (over.signal.aborted) return false;
      if (write(frame)) return true;
      isWaiting = true;
      await new Promise<void>((resolve) => {
        const timer = clock.timeout(patienceMs, () => over.abort('too_slow'));
        const goOn = (): void => {
          timer.cancel();
          res.off('drain', goOn);
          release();
          resolve();
        };
        res.once('drain', goOn);
        const release = onAbort(over.signal, goOn);
      });
      isWaiting = false;
      return !over.signal.aborted;
    },
    beat: (frame) => {
      if (!isWaiting && !over.signal.aborted) write(frame);
    },
    end: (frame) => {
      if (res.writableEnded || res.destroyed) return;
      over.abort('ended');
      write(frame);
      res.end();
      // A client that does not read keeps the connection from closing.
      const timer = clock.timeout(lastWordsMs, () => res.destroy(), { unref: true });
      res.once('close', () => timer.cancel());
    },
  };
}
