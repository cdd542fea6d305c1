import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** The right of one request to one upload. */
export interface Hold {
  /** Aborts when another request wants the upload: what it sends after the hold's own is what counts. */
  taken: AbortSignal;
  release(): void;
}

/** Who holds what, by the id of an upload. */
export interface Holds {
  /**
   * Asks whoever holds the upload to let go, and waits for it. A client that asks again has lost its
   * connection, of which the server may know much later. Throws `upload_locked` if the holder is not done in
   * time: it hands the whole archive to the queue.
   */
  take(id: string): Promise<Hold>;
  isHeld(id: string): boolean;
}

/** Shorter than the patience of any proxy. */
const patienceMs = 10_000;

export function createHolds(clock: Pick<Clock, 'timeout'>, waitMs: number = patienceMs): Holds {
  const held = new Map<string, { abort: AbortController; released: Promise<void> }>();

  async function whenFree(id: string): Promise<void> {
    const patience = { isOver: false, end: (): void => undefined };
    const isOver = new Promise<void>((resolve) => (patience.end = resolve));
    const timer = clock.timeout(waitMs, () => {
      patience.isOver = true;
      patience.end();
    });
    try {
      for (let holder = held.get(id); holder !== undefined; holder = held.get(id)) {
        if (patience.isOver) throw locked('another request hands it to the queue, or sends it');
        holder.abort.abort(locked('another request has taken it over'));
        await Promise.race([holder.released, isOver]);
      }
    } finally {
      timer.cancel();
    }
  }

  return {
    take: async (id) => {
      // Whoever else waited may have been first.
      while (held.has(id)) await whenFree(id);
      const abort = new AbortController();
      let release: () => void = () => undefined;
      const released = new Promise<void>((resolve) => (release = resolve));
      held.set(id, { abort, released });
      return {
        taken: abort.signal,
        release: () => {
          if (held.get(id)?.abort === abort) held.delete(id);
          release();
        },
      };
    },
    isHeld: (id) => held.has(id),
  };
}

function locked(why: string): WaybillError {
  return new WaybillError('upload_locked', `the upload is in use: ${why}`, {
    hint: 'ask for its offset shortly, and go on from there',
  });
}
