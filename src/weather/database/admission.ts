import type { Clock } from '../../core/lib/clock.ts';
import { createSemaphore, type Semaphore } from '../../core/lib/parallel.ts';

/**
 * Admits reads to connections. Rejects with the code POOL_TIMEOUT after a wait, or immediately with POOL_FULL
 * if the wait would be too long. With POOL_FULL, `retryAfterSeconds` estimates when a retry may succeed.
 */
export type Admission = (family: string) => Promise<() => void>;

export interface AdmissionLimits {
  /** Maximum number of concurrent reads across all families. */
  maxConcurrent: number;
  /**
   * Maximum number of concurrent reads of one family. The remaining connections stay free for other families
   * while this family's tables are locked.
   */
  share: number;
  /** Time limit of a read in milliseconds, including the time spent waiting. */
  waitMs: number;
}

/** Acts as a bulkhead: a family whose reads hang uses only its share of the connections. */
export function openAdmission(limits: AdmissionLimits, clock: Clock): Admission {
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
  /** Estimated duration of a read in milliseconds, based on earlier reads. 0 if there were none. */
  takesMs: number;
}

function newQueue(capacity: number): Queue {
  return { places: createSemaphore(capacity), capacity, waiting: 0, takesMs: 0 };
}

/** Recent reads have the most weight, because locks appear and disappear suddenly. */
function learn(queue: Queue, durationMs: number): void {
  queue.takesMs += (durationMs - queue.takesMs) / 4;
}

/** Returns the number of milliseconds until a read that arrives now would be done. */
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
 * Waits for a place. Rejects immediately if the wait would be too long, because it would only delay later
 * reads.
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
