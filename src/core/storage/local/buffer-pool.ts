import { createSemaphore } from '../../lib/parallel.ts';

/** The size of each buffer lent, in bytes. */
export const bufferBytes = 1 << 20;
/** How many buffers a borrower gets. */
export const buffersLent = 5;

/** More large copies at once per thread are no faster, and each of them needs its buffers. */
const mostBorrowers = 3;
const borrowers = createSemaphore(mostBorrowers);
const spares: Buffer[][] = [];

/**
 * Lends `buffersLent` buffers of `bufferBytes` bytes to `work`, and waits for its turn if `mostBorrowers` are
 * at work. Buffers are reused because discarded ones occupy memory until the next garbage collection.
 */
export async function withBuffers<T>(work: (buffers: readonly Buffer[]) => Promise<T>): Promise<T> {
  const release = await borrowers.acquire(1);
  const buffers =
    spares.pop() ?? Array.from({ length: buffersLent }, () => Buffer.allocUnsafeSlow(bufferBytes));
  try {
    return await work(buffers);
  } finally {
    spares.push(buffers);
    release();
  }
}
