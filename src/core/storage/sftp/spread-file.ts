import type { SftpSession } from './session.ts';

/** A file that is open over one connection. */
export interface Lane {
  readonly session: SftpSession;
  readonly handle: Buffer;
}

/** One file, open over the first connection and over as many further ones as are open by now. */
export interface SpreadFile {
  /**
   * Does `work` over the connection with the fewest requests under way, once one has fewer than
   * `requestsAhead`. Resolves when the work has begun, with its end.
   */
  begin<T>(work: (lane: Lane) => Promise<T>): Promise<{ done: Promise<T> }>;
  /** Whether a further connection has taken part. */
  isSpread(): boolean;
  /**
   * Takes no further connection any more; resolves with those besides the first, each once: whoever gets it
   * closes its file.
   */
  settle(): Promise<readonly Lane[]>;
}

interface BusyLane extends Lane {
  underWay: number;
}

/**
 * `further` are connections that may still be opening, which are used once `open` has opened the file there;
 * without those that fail it goes on.
 */
export function spreadFile(
  first: Lane,
  further: readonly Promise<SftpSession>[],
  open: (session: SftpSession) => Promise<Buffer>,
  requestsAhead: number,
): SpreadFile {
  const lanes: BusyLane[] = [{ ...first, underWay: 0 }];
  const underWay = new Set<Promise<unknown>>();
  const opening = new Set<Promise<void>>();
  let isSettled = false;
  let hasJoined = false;

  const join = async (session: SftpSession): Promise<void> => {
    lanes.push({ session, handle: await open(session), underWay: 0 });
    hasJoined = true;
  };
  for (const each of further)
    each.then(
      (session) => {
        if (isSettled || session.isClosed()) return;
        const joined: Promise<void> = join(session)
          .catch(() => undefined)
          .finally(() => opening.delete(joined));
        opening.add(joined);
      },
      () => undefined,
    );

  return {
    async begin(work) {
      let lane = leastBusy(lanes);
      while (lane.underWay >= requestsAhead) {
        await Promise.race(underWay);
        lane = leastBusy(lanes);
      }
      const taken = lane;
      taken.underWay += 1;
      const done = work(taken);
      const end = (): void => {
        taken.underWay -= 1;
        underWay.delete(ended);
      };
      const ended = done.then(end, end);
      underWay.add(ended);
      return { done };
    },
    isSpread: () => hasJoined,
    async settle() {
      isSettled = true;
      await Promise.all(opening);
      return lanes.splice(1);
    },
  };
}

function leastBusy(lanes: readonly BusyLane[]): BusyLane {
  return lanes.reduce((least, lane) => (lane.underWay < least.underWay ? lane : least));
}
