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
  /** The number of streams that have ended since startup, by reason. */
  ended: Readonly<Record<StreamEnd, number>>;
}

/** Counts this process's event streams and limits how many may be open concurrently. */
export interface Streams {
  /**
   * Opens a stream for this caller. Call the returned function once, with the reason why the stream ended, or
   * with null if it never began. Throws `quota_exceeded` at the caller's limit and `too_many_streams` at the
   * limit for all callers.
   */
  open(owner: string): (end: StreamEnd | null) => void;
  /** Serializes a change as an event. The result is cached, because many streams send the same change. */
  frameOf(change: RunChange): string;
  stats: () => StreamStats;
}

/** Maximum number of cached events. */
const maxFrames = 100;

export function createStreams(maxStreams: number, perOwner: number): Streams {
  const ended = Object.fromEntries(streamEnds.map((end) => [end, 0])) as Record<StreamEnd, number>;
  const frames = new Map<string, string>();
  const shares = createShares({ total: maxStreams, perOwner });
  return {
    open: (owner) => {
      const refusedBy = shares.take(owner, 1);
      if (refusedBy === 'owner')
        throw new WaybillError('quota_exceeded', `this client has ${perOwner} streams of events open`, {
          hint: 'close one, or ask for the record with `?wait=30`',
        });
      if (refusedBy === 'total')
        throw new WaybillError('too_many_streams', `all ${maxStreams} streams of events are taken`, {
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

interface ServerEvent {
  event: string;
  /** If null, the client keeps its last id. */
  id: string | null;
  /** JSON on a single line. */
  data: string;
}

/** Serializes an event for the stream. */
export function frameOf({ event, id, data }: ServerEvent): string {
  return `event: ${event}\n${id === null ? '' : `id: ${id}\n`}data: ${data}\n\n`;
}

/** Server-sent events on one response. Holds at most one event in memory, apart from the socket's buffer. */
export interface EventStream {
  /**
   * Sends an event. Resolves with true when the next one may be sent. Resolves with false after the stream
   * has ended, because the client disconnected, did not read for too long, or `end` was called.
   */
  send(frame: string): Promise<boolean>;
  /** Sends a heartbeat, unless earlier output is still unread. */
  heartbeat(frame: string): void;
  /** Sends a last event and closes the stream. Does nothing if the stream has already ended. */
  end(frame: string): void;
  /** Aborts when the stream has ended. The reason is `too_slow`, `client_left` or `ended`. */
  over: AbortSignal;
  /** The number of bytes written. */
  bytes(): number;
}

interface EventStreamOptions {
  clock: Clock;
  /** How long a client may leave sent data unread, in milliseconds. */
  stallTimeoutMs: number;
}

/** The maximum time for sending the last event, in milliseconds. */
const maxFinalEventMs = 5_000;

/** Sends the head immediately, so that the client sees the open stream before its first event. */
export function openEventStream(
  res: ServerResponse,
  { clock, stallTimeoutMs }: EventStreamOptions,
): EventStream {
  const over = new AbortController();
  let [bytes, isWaiting] = [0, false];
  res.statusCode = 200;
  res.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
  // Otherwise, nginx would delay events until its buffer is full.
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
        const timer = clock.timeout(stallTimeoutMs, () => over.abort('too_slow'));
        const resume = (): void => {
          timer.cancel();
          res.off('drain', resume);
          release();
          resolve();
        };
        res.once('drain', resume);
        const release = onAbort(over.signal, resume);
      });
      isWaiting = false;
      return !over.signal.aborted;
    },
    heartbeat: (frame) => {
      if (!isWaiting && !over.signal.aborted) write(frame);
    },
    end: (frame) => {
      if (res.writableEnded || res.destroyed) return;
      over.abort('ended');
      write(frame);
      res.end();
      // A client that does not read would keep the connection from closing.
      const timer = clock.timeout(maxFinalEventMs, () => res.destroy(), { unref: true });
      res.once('close', () => timer.cancel());
    },
  };
}
