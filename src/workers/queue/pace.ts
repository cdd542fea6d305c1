/*
 * How fast runs end, and when whoever was refused had better come back. Pure.
 */

/** So many ends of runs are remembered. */
export const mostEnds = 64;

const windowMs = 15 * 60_000;
const usualSeconds = 10;
const mostSeconds = 300;

export interface Pace {
  /** Uploads and runs that hold a slot. */
  waiting: number;
  /** When the last runs ended, in milliseconds, the oldest first; at most `mostEnds`. */
  endedAt: readonly number[];
  /** Now, on the same clock. */
  now: number;
  /** Nothing begins until somebody resumes the pipeline. */
  isPaused: boolean;
}

/**
 * The seconds that all who wait will take at the pace at which the last runs ended, from 1 to 300; 10 if
 * fewer than two ended in the last quarter of an hour. A pause since the last end counts: a queue that stands
 * still sends clients away for longer and longer, and one that is paused for the longest time.
 */
export function retryAfterSeconds({ waiting, endedAt, now, isPaused }: Pace): number {
  if (isPaused) return mostSeconds;
  const recent = endedAt.filter((at) => now - at <= windowMs);
  const [oldest] = recent;
  if (oldest === undefined || recent.length < 2) return usualSeconds;
  const msPerRun = (now - oldest) / (recent.length - 1);
  const seconds = Math.ceil((waiting * msPerRun) / 1000);
  return Math.min(Math.max(seconds, 1), mostSeconds);
}

/** The ends of the last runs, of each pipeline and of all together. */
export class Ends {
  readonly #endedAt = new Map<string | null, number[]>();

  /** @param at Milliseconds on the clock of the `Pace` that they are for. */
  note(pipelineId: string, at: number): void {
    for (const whose of [pipelineId, null]) {
      const ends = this.#endedAt.get(whose) ?? [];
      this.#endedAt.set(whose, ends);
      ends.push(at);
      if (ends.length > mostEnds) ends.shift();
    }
  }

  /** Of one pipeline, or of all together. */
  of(pipelineId: string | null): readonly number[] {
    return this.#endedAt.get(pipelineId) ?? [];
  }
}
