import type { Clock } from '../../core/lib/clock.ts';
import { createSemaphore, type Semaphore } from '../../core/lib/parallel.ts';

/**
 * Lets reads to connections. Rejects with the code POOL_TIMEOUT after a wait, or POOL_FULL without any, where
 * the wait would be too long; `retryAfterSeconds` of the latter says when it may be worth another try.
 */
export type Admission = (family: string) => Promise<() => void>;

export interface AdmissionLimits {
  /** Reads at once, of all families together. */
  most: number;
  /** Reads at once of one family: the rest stays free for the others while its tables are locked. */
  share: number;
  /** What a read may take, its wait included. */
  waitMs: number;
}

/** A bulkhead: one family that hangs takes its share of the connections and no more. */
export function openAdmission(limits: AdmissionLimits, clock: Clock): Admission {
  const all = newQueue(limits.most);
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
  /** Milliseconds of a read, as those before it took; 0 if there was none. */
  takesMs: number;
}

function newQueue(capacity: number): Queue {
  return { places: createSemaphore(capacity), capacity, waiting: 0, takesMs: 0 };
}

/** The latest reads count most: a lock comes, and goes, from one moment to the next. */
function learn(queue: Queue, tookMs: number): void {
  queue.takesMs += (tookMs - queue.takesMs) / 4;
}

/** Milliseconds until a read that comes now would be done. Pure. */
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

/** Not at all where that is bound to be in vain: it would only make those behind it wait, too. */
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

const longestRetryAfter = 30;

function full(doneInMs: number): Error {
  const seconds = Math.min(longestRetryAfter, Math.ceil(doneInMs / 1000));
  return Object.assign(refusal('POOL_FULL'), { retryAfterSeconds: seconds });
}

function refusal(code: string): Error {
  return Object.assign(new Error('no free connection'), { code });
}
