import { closeSync, read as readCallback, readSync, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { slowCallDetector } from './slow-call-detector.ts';

/**
 * The largest file, in bytes, that is copied by synchronous calls as long as those are fast: three system
 * calls of some microseconds are far cheaper than three trips through the thread pool. If reading is slow (a
 * disk), reads go through the pool in parallel; if writing is slow (a network file system), the whole copy
 * does.
 */
export const smallFileBytes = 1 << 16;

/** Opening, reading and closing a cached file takes some 0.02 ms; each request to a disk 0.06 ms and more. */
export const reads = slowCallDetector({ slowMs: 0.1 });
export const writes = slowCallDetector({ slowMs: 2 });

const shared = Buffer.allocUnsafeSlow(smallFileBytes + 1);
const readAsync = promisify(readCallback);

/*
 * These functions close the descriptor that they are given.
 */

/** Returns the content of a file of at most `smallFileBytes` in a buffer of its own; null if it is larger. */
export function readIfSmall(source: number): Buffer | null {
  try {
    const size = readSync(source, shared, 0, shared.length, 0);
    return size > smallFileBytes ? null : Buffer.from(shared.subarray(0, size));
  } finally {
    closeSync(source);
  }
}

/**
 * Reads at most one byte more than `expected` bytes (at most `smallFileBytes`), so that a file that has grown
 * is noticed. The buffer returned is overwritten by the next call.
 */
export function readSmallFile(source: number, expected: number): Buffer {
  try {
    let size = 0;
    while (size <= expected) {
      const count = readSync(source, shared, size, expected + 1 - size, null);
      if (count === 0) break;
      size += count;
      // A regular file returns everything in one read; another one would only confirm the end.
      if (size === expected) break;
    }
    return shared.subarray(0, size);
  } finally {
    closeSync(source);
  }
}

/** The same through the thread pool, into a buffer of its own. */
export async function readSmallFileInPool(source: number, expected: number): Promise<Buffer> {
  try {
    const buffer = Buffer.allocUnsafe(expected + 1);
    let size = 0;
    while (size <= expected) {
      const { bytesRead } = await readAsync(source, buffer, size, expected + 1 - size, null);
      if (bytesRead === 0) break;
      size += bytesRead;
      // A regular file returns everything in one read; another one would only confirm the end.
      if (size === expected) break;
    }
    return buffer.subarray(0, size);
  } finally {
    closeSync(source);
  }
}

/** Writes `bytes` to a new file. */
export function writeSmallFile(target: number, bytes: Uint8Array): void {
  try {
    for (let done = 0; done < bytes.byteLength;)
      done += writeSync(target, bytes, done, bytes.byteLength - done);
  } finally {
    closeSync(target);
  }
}
