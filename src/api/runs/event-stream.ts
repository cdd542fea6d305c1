import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunChange } from '../../workers/queue/run-changes.ts';
import { createShares } from '../http/request/shares.ts';

/** The reasons why a stream can end. The first five are sent to the client. */
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

/** Counts the open event streams of this process and limits their number. */
export interface Streams {
  /**
   * Opens a stream for this caller. When it ends, call the returned function once with the reason, or with
   * null if it never began. Throws `quota_exceeded` if this caller has too many streams, and
   * `too_many_streams` if there are too many overall.
   */
  open(owner: string): (end: StreamEnd | null) => void;
  /**
   * Formats a change as an event. Results are cached, because the same change is usually sent to many
   * streams.
   */
  frameOf(change: RunChange): string;
  stats: () => StreamStats;
}

/** The maximum number of formatted events in the cache. */
const maxFrames = 100;

export function createStreams(maxStreams: number, perOwner: number): Streams {
  const ended = Object.fromEntries(streamEnds.map((end) => [end, 0])) as Record<StreamEnd, number>;
  const frames = new Map<string, string>();
  const shares = createShares({ total: maxStreams, perOwner });
  return {
    open: (owner) => {
      const refusedBy = shares.take(owner, 1);
      if (refusedBy === 'owner')
        throw new WaybillError('quota_exceeded', `this client has ${perOwner} event streams open`, {
          hint: 'close one, or ask for the record with `?wait=30`',
        });
      if (refusedBy === 'total')
        throw new WaybillError('too_many_streams', `all ${maxStreams} event streams are in use`, {
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
  /** null leaves the client's last event id unchanged. */
  id: string | null;
  /** A single line of JSON. */
  data: string;
}

export function frameOf({ event, id, data }: ServerEvent): string {
  return `event: ${event}\n${id === null ? '' : `id: ${id}\n`}data: ${data}\n\n`;
}

/**
 * A response that sends server-sent events. It keeps at most one event in memory, not counting the socket's
 * buffer.
 */
export interface EventStream {
  /**
   * Sends an event. Resolves to true when it is time to send the next one. Resolves to false if the stream
   * has ended: the client disconnected or was too slow, or `end` was called.
   */
  send(frame: string): Promise<boolean>;
  /** Sends a heartbeat, but only if the client has read everything so far. */
  heartbeat(frame: string): void;
  /** Sends one last event and closes the stream. Does nothing if it has already ended. */
  end(frame: string): void;
  /** Aborted when the stream has ended, with the reason `too_slow`, `client_left` or `ended`. */
  over: AbortSignal;
  /** Returns the number of bytes written so far. */
  bytes(): number;
}

interface EventStreamOptions {
  clock: Clock;
  /** How long a client may take to read what was sent, in milliseconds. */
  stallTimeoutMs: number;
}

/** The time limit for sending the last event, in milliseconds. */
const maxFinalEventMs = 5_000;

/**
 * Starts a stream of server-sent events. The head is sent right away, so that the client does not have to
 * wait for the first event to see that the stream is open.
 */
export function openEventStream(
  res: ServerResponse,
  { clock, stallTimeoutMs }: EventStreamOptions,
): EventStream {
  const over = new AbortController();
  let bytes = 0;
  let isWaiting = false;
  res.statusCode = 200;
  res.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
  // Makes nginx pass on each event immediately instead of buffering it.
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
      // If the client does not read, the connection would never close.
      const timer = clock.timeout(maxFinalEventMs, () => res.destroy(), { unref: true });
      res.once('close', () => timer.cancel());
    },
  };
}
