import type { Clock } from '../../clock.ts';
import { createSemaphore, type Semaphore } from '../../semaphore.ts';

/** Lets reads to connections. Rejects with the code POOL_TIMEOUT, or POOL_FULL without any wait. */
export type Admission = (family: string) => Promise<() => void>;

export interface AdmissionLimits {
  /** Reads at once, of all families together. */
  most: number;
  /** Reads at once of one family: the rest stays free for the others while its tables are locked. */
  share: number;
  /** Longest wait. */
  waitMs: number;
}

/** Reads of one family that wait, for each that runs; a longer queue would outlast the deadline anyway. */
const waitingForEach = 8;

/** A bulkhead: one family that hangs takes its share of the connections and no more. */
export function openAdmission(limits: AdmissionLimits, clock: Clock): Admission {
  const all = createSemaphore(limits.most);
  const families = new Map<string, { running: Semaphore; waiting: number }>();
  return async (name) => {
    const family = families.get(name) ?? { running: createSemaphore(limits.share), waiting: 0 };
    families.set(name, family);
    const free = takeFree(family.running, all);
    if (free !== null) return free;
    if (family.waiting >= limits.share * waitingForEach) throw refusal('POOL_FULL');
    family.waiting += 1;
    const late = new AbortController();
    const timer = clock.timeout(limits.waitMs, () => late.abort(refusal('POOL_TIMEOUT')));
    try {
      return await takeBoth(family.running, all, late.signal);
    } finally {
      timer.cancel();
      family.waiting -= 1;
    }
  };
}

function takeFree(family: Semaphore, all: Semaphore): (() => void) | null {
  const ofFamily = family.tryAcquire(1);
  if (ofFamily === null) return null;
  const ofAll = all.tryAcquire(1);
  if (ofAll === null) {
    ofFamily();
    return null;
  }
  return both(ofFamily, ofAll);
}

async function takeBoth(family: Semaphore, all: Semaphore, signal: AbortSignal): Promise<() => void> {
  const ofFamily = await family.acquire(1, signal);
  try {
    return both(ofFamily, await all.acquire(1, signal));
  } catch (error) {
    ofFamily();
    throw error;
  }
}

function both(first: () => void, second: () => void): () => void {
  return () => {
    first();
    second();
  };
}

function refusal(code: string): Error {
  return Object.assign(new Error('no free connection'), { code });
}
