import { WaybillError } from '../../core/lib/errors.ts';
import type { RunChange } from '../../workers/queue/run-changes.ts';
import { createShares } from '../http/request/shares.ts';
import { frameOf } from './event-stream.ts';

/** Why a stream ended. A client is told the first five. */
export const streamEnds = [
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
const mostFrames = 100;

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
      if (oldest !== undefined && frames.size > mostFrames) frames.delete(oldest);
      return frame;
    },
    stats: () => ({ open: shares.taken(), ended: { ...ended } }),
  };
}
