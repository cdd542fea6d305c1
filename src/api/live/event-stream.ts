import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/lib/clock.ts';
import { onAbort } from '../../core/lib/on-abort.ts';

/** One server-sent event. */
export interface ServerEvent {
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

export interface EventStreamOptions {
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
