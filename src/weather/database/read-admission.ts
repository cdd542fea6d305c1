import type { Clock } from '../../core/lib/clock.ts';
import { createSemaphore, type Semaphore } from '../../core/lib/parallel.ts';

/**
 * Waits until a read may use a connection, and returns a function to call when it is done. Rejects with the
 * code POOL_TIMEOUT if none becomes free in time, or immediately with POOL_FULL if the wait would clearly be
 * too long. In that case, `retryAfterSeconds` estimates when it is worth trying again.
 */
export type ReadAdmission = (family: string) => Promise<() => void>;

export interface AdmissionLimits {
  /** The maximum number of concurrent reads, across all families. */
  maxConcurrent: number;
  /**
   * The maximum number of concurrent reads in one family. If its tables are locked, the other families can
   * still use the rest.
   */
  share: number;
  /** The time limit for a read in milliseconds, including the wait. */
  waitMs: number;
}

/**
 * Limits the number of concurrent reads, both overall and per family. If the reads of one family hang, they
 * cannot take up all connections.
 */
export function openAdmission(limits: AdmissionLimits, clock: Clock): ReadAdmission {
  const all = newQueue(limits.maxConcurrent);
  const families = new Map<string, Queue>();
  return async (name) => {
    const own = families.get(name) ?? newQueue(limits.share);
    families.set(name, own);
    const release = takeFree(own, all) ?? (await wait(own, all, limits.waitMs, clock));
    const since = clock.monotonic();
    return () => {
      release();
      for (const queue of [own, all]) learn(queue, clock.monotonic() - since);
    };
  };
}

interface Queue {
  places: Semaphore;
  capacity: number;
  waiting: number;
  /** The estimated duration of a read in milliseconds, based on earlier reads. 0 if there have been none. */
  takesMs: number;
}

function newQueue(capacity: number): Queue {
  return { places: createSemaphore(capacity), capacity, waiting: 0, takesMs: 0 };
}

/** Updates the estimate. Recent reads count the most, because locks come and go suddenly. */
function learn(queue: Queue, durationMs: number): void {
  queue.takesMs += (durationMs - queue.takesMs) / 4;
}

/** Estimates when a read that is queued now would be done, in milliseconds from now. */
function doneInMs({ waiting, capacity, takesMs }: Queue): number {
  return ((waiting + 1) / capacity + 1) * takesMs;
}

function takeFree(own: Queue, all: Queue): (() => void) | null {
  const ofFamily = own.places.tryAcquire(1);
  if (ofFamily === null) return null;
  const ofAll = all.places.tryAcquire(1);
  if (ofAll === null) {
    ofFamily();
    return null;
  }
  return both(ofFamily, ofAll);
}

/**
 * Waits for a free connection. If the wait is expected to take too long, gives up right away, because the
 * read would time out anyway and only delay those behind it.
 */
async function wait(own: Queue, all: Queue, waitMs: number, clock: Clock): Promise<() => void> {
  const doneIn = Math.max(doneInMs(own), doneInMs(all));
  if (doneIn > waitMs) throw full(doneIn);
  const late = new AbortController();
  const timer = clock.timeout(waitMs, () => late.abort(refusal('POOL_TIMEOUT')));
  try {
    const ofFamily = await takeInTurn(own, late.signal);
    try {
      return both(ofFamily, await takeInTurn(all, late.signal));
    } catch (error) {
      ofFamily();
      throw error;
    }
  } finally {
    timer.cancel();
  }
}

async function takeInTurn(queue: Queue, signal: AbortSignal): Promise<() => void> {
  queue.waiting += 1;
  try {
    return await queue.places.acquire(1, signal);
  } finally {
    queue.waiting -= 1;
  }
}

function both(first: () => void, second: () => void): () => void {
  return () => {
    first();
    second();
  };
}

const maxRetryAfterSeconds = 30;

function full(doneInMs: number): Error {
  const seconds = Math.min(maxRetryAfterSeconds, Math.ceil(doneInMs / 1000));
  return Object.assign(refusal('POOL_FULL'), { retryAfterSeconds: seconds });
}

function refusal(code: string): Error {
  return Object.assign(new Error('no free connection'), { code });
}
