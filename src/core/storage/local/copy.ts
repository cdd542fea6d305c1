import { closeSync, fstatSync, openSync, read as readFile, readSync, writeSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { setImmediate as breathe } from 'node:timers/promises';
import { promisify } from 'node:util';
import { finishDigest, startDigest } from '../../digest.ts';
import { checkBody } from '../body.ts';
import { createSemaphore } from '../../semaphore.ts';
import { localFailure } from './errors.ts';
import { pacer } from './slow-call-detector.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';

const chunkBytes = 1 << 20;
/**
 * How far a large file is read ahead of what is hashed and written: a disk answers several requests sooner
 * than one.
 */
const chunksAhead = 3;
/**
 * Little that waits to be written back: 1 GiB on ext4 takes 0.9 to 2.0 s so, as the memory of the moment
 * allows, and 1.6 to 2.4 s with 128 MiB.
 */
const flushEveryBytes = 32 << 20;
/**
 * Large files that a thread copies side by side, whatever the concurrency: more are no faster, and each takes
 * its buffers.
 */
const largeAtOnce = 3;
const bufferBytes = (chunksAhead + 2) * chunkBytes;
const bufferMemory = createSemaphore(largeAtOnce * bufferBytes);
const spareBuffers: Buffer[][] = [];

/**
 * A file up to this size is copied by synchronous calls where those are quick, because three system calls of
 * some microseconds beat three trips through the thread pool by far. Where reading waits for a disk, the
 * waiting is done side by side in the pool; where writing does (a network file system), all of it is.
 */
const smallFileBytes = 1 << 16;
/**
 * To open, read and close a file in the page cache takes some 0.02 ms, one on a disk several requests of 0.06
 * ms and more.
 */
const reading = pacer({ slowMs: 0.1 });
const writing = pacer({ slowMs: 2 });
let copiesSinceBreath = 0;
const shared = Buffer.allocUnsafeSlow(smallFileBytes + 1);
const readLater = promisify(readFile);

/**
 * The bytes of a file, the next chunk being read while the last is used; those of a small file at once, where
 * that is quick.
 */
export async function* readChunks(file: string): AsyncIterable<Uint8Array> {
  const whole = reading.isSlow() ? null : reading.time(() => readIfSmall(file));
  if (whole !== null) {
    if (whole.byteLength > 0) yield whole;
    return;
  }
  const source = openSync(file, 'r');
  const firstBytes = Math.min(fstatSync(source).size, smallFileBytes) + 1;
  let next = readPiece(source, firstBytes);
  try {
    for (let isFirst = true; ; isFirst = false) {
      const chunk = await next;
      if (chunk.byteLength === 0) return;
      // A regular file gives all it has at once; one more read would only say so.
      const isAll = isFirst && chunk.byteLength < firstBytes;
      if (!isAll) {
        next = readPiece(source, chunkBytes);
        next.catch(() => undefined); // Where the consumer stops early only the end here awaits it.
      }
      yield chunk;
      if (isAll) return;
    }
  } finally {
    // A file that is closed under a read would give it the bytes of whatever is opened next.
    await next.catch(() => undefined);
    closeSync(source);
  }
}

/** All of a file up to `smallFileBytes`, in a buffer of its own; null where it is larger. */
function readIfSmall(file: string): Buffer | null {
  const source = openSync(file, 'r');
  try {
    const size = readSync(source, shared, 0, shared.length, 0);
    return size > smallFileBytes ? null : Buffer.from(shared.subarray(0, size));
  } finally {
    closeSync(source);
  }
}

async function readPiece(source: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await readLater(source, Buffer.allocUnsafeSlow(bytes), 0, bytes, null);
  return buffer.subarray(0, bytesRead);
}

/**
 * Copies a body into a new or emptied file, hashing on the way, and holds it against what was promised. Not
 * synced.
 */
export async function copyToFile(
  name: string,
  file: string,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  options.signal?.throwIfAborted();
  if (body.localPath === undefined) {
    if (body.size > smallFileBytes || writing.isSlow()) return copyStream(name, file, body, options);
    const bytes = await collected(body);
    return writing.time(() => writeSmallFile(name, file, bytes, body, options));
  }
  if (body.size > smallFileBytes) return copyLargeFile(name, body.localPath, file, body, options);
  if (writing.isSlow()) return copyStream(name, file, body, options);
  copiesSinceBreath += 1;
  if (copiesSinceBreath % 64 === 0) await breathe();
  const bytes = reading.isSlow()
    ? await readSmallFileLater(name, body.localPath, body.size)
    : reading.time(() => readSmallFile(name, body.localPath as string, body.size));
  return writing.time(() => writeSmallFile(name, file, bytes, body, options));
}

/** All of a small body, or a little more than it promised, so that one that grew is noticed. */
async function collected(body: Body): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body.open()) {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > body.size) break;
  }
  return Buffer.concat(chunks);
}

function writeSmallFile(
  name: string,
  file: string,
  bytes: Buffer,
  body: Body,
  options: WriteOptions,
): Written {
  const size = bytes.byteLength;
  const digest = finishDigest(startDigest().update(bytes));
  checkBody(name, { size, digest }, { size: body.size, digest: options.digest });
  const target = openSync(file, 'w', 0o644);
  try {
    for (let done = 0; done < size;) done += writeSync(target, bytes, done, size - done);
  } finally {
    closeSync(target);
  }
  options.onBytes?.(size);
  return { size, digest, version: null };
}

/**
 * What is in the file, at most one byte more than promised, so that a file that grew is noticed. The bytes
 * are good until the next call.
 */
function readSmallFile(name: string, file: string, promised: number): Buffer {
  try {
    const source = openSync(file, 'r');
    try {
      let size = 0;
      while (size <= promised) {
        const count = readSync(source, shared, size, promised + 1 - size, null);
        if (count === 0) break;
        size += count;
      }
      return shared.subarray(0, size);
    } finally {
      closeSync(source);
    }
  } catch (error) {
    throw localFailure({ label: 'source' }, name, error);
  }
}

/** The same through the thread pool, into a buffer of its own. */
async function readSmallFileLater(name: string, file: string, promised: number): Promise<Buffer> {
  try {
    const source = openSync(file, 'r');
    try {
      const buffer = Buffer.allocUnsafe(promised + 1);
      let size = 0;
      while (size <= promised) {
        const { bytesRead } = await readLater(source, buffer, size, promised + 1 - size, null);
        if (bytesRead === 0) break;
        size += bytesRead;
        // A regular file gives all it has at once; one more read would only say so.
        if (size === promised) break;
      }
      return buffer.subarray(0, size);
    } finally {
      closeSync(source);
    }
  } catch (error) {
    throw localFailure({ label: 'source' }, name, error);
  }
}

/**
 * Lends buffers, the same ones again and again: what is thrown away stays in memory until the garbage is next
 * collected.
 */
async function withBuffers<T>(work: (buffers: readonly Buffer[]) => Promise<T>): Promise<T> {
  const release = await bufferMemory.acquire(bufferBytes);
  const buffers =
    spareBuffers.pop() ?? Array.from({ length: chunksAhead + 2 }, () => Buffer.allocUnsafeSlow(chunkBytes));
  try {
    return await work(buffers);
  } finally {
    spareBuffers.push([...buffers]);
    release();
  }
}

/**
 * From file to file: some buffers are being read into, one is hashed, one written. Closing the files waits
 * for what is under way in the buffers.
 */
async function copyLargeFile(
  name: string,
  from: string,
  to: string,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  return withBuffers((buffers) => copyThrough(buffers, name, from, to, body, options));
}

async function copyThrough(
  buffers: readonly Buffer[],
  name: string,
  from: string,
  to: string,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  const source = await open(from, 'r').catch((error: unknown) => {
    throw localFailure({ label: 'source' }, name, error);
  });
  const target = await open(to, 'w', 0o644).catch(async (error: unknown) => {
    await source.close();
    throw error;
  });
  try {
    const hash = startDigest();
    const read = async (turn: number): Promise<Buffer> => {
      const buffer = buffers[turn % buffers.length] as Buffer;
      const { bytesRead } = await source.read(buffer, 0, chunkBytes, turn * chunkBytes);
      return buffer.subarray(0, bytesRead);
    };
    const ahead: Promise<Buffer>[] = [];
    const readAhead = (): void => {
      const chunk = read(nextRead);
      chunk.catch(() => undefined); // Met where the chunk is awaited, or of no matter any more.
      ahead.push(chunk);
      nextRead += 1;
    };
    let nextRead = 0;
    let size = 0;
    let writingChunk: Promise<unknown> = Promise.resolve();
    const flusher = earlyFlusher(target);
    while (ahead.length < chunksAhead) readAhead();
    for (let next = ahead.shift(); next !== undefined && size <= body.size; next = ahead.shift()) {
      options.signal?.throwIfAborted();
      const chunk = await next;
      if (chunk.byteLength === 0) break;
      await writingChunk; // Its buffer is the one that is read into next.
      writingChunk = writeFully(target, chunk);
      writingChunk.catch(() => undefined);
      readAhead();
      hash.update(chunk);
      size += chunk.byteLength;
      options.onBytes?.(chunk.byteLength);
      flusher.wrote(chunk.byteLength);
    }
    await writingChunk;
    await Promise.all(ahead);
    await flusher.done();
    const written = { size, digest: finishDigest(hash), version: null };
    checkBody(name, written, { size: body.size, digest: options.digest });
    return written;
  } finally {
    await source.close();
    await target.close();
  }
}

/**
 * Sends what was written to the disk while the copy goes on, so that the sync at its end finds little left to
 * wait for. Whether a flush succeeded is of no matter here: the sync at the end tells.
 */
function earlyFlusher(target: FileHandle): { wrote(bytes: number): void; done(): Promise<void> } {
  let unflushed = 0;
  let flushing: Promise<void> | undefined;
  return {
    wrote: (bytes) => {
      unflushed += bytes;
      if (unflushed < flushEveryBytes || flushing !== undefined) return;
      unflushed = 0;
      flushing = target
        .datasync()
        .catch(() => undefined)
        .finally(() => (flushing = undefined));
    },
    done: async () => flushing,
  };
}

async function copyStream(name: string, file: string, body: Body, options: WriteOptions): Promise<Written> {
  const handle = await open(file, 'w', 0o644);
  try {
    const hash = startDigest();
    let size = 0;
    let writing: Promise<unknown> = Promise.resolve();
    for await (const chunk of body.open()) {
      options.signal?.throwIfAborted();
      const started = writing.then(() => writeFully(handle, chunk));
      started.catch(() => undefined); // Awaited below, by way of `writing`.
      hash.update(chunk); // While the chunk before this one is on its way to the disk.
      await writing;
      writing = started;
      size += chunk.byteLength;
      options.onBytes?.(chunk.byteLength);
      if (size > body.size) break;
    }
    await writing;
    const written = { size, digest: finishDigest(hash), version: null };
    checkBody(name, written, { size: body.size, digest: options.digest });
    return written;
  } finally {
    await handle.close();
  }
}

async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, null);
    done += bytesWritten;
  }
}
