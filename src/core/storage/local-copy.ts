import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { setImmediate as breathe } from 'node:timers/promises';
import { finishDigest, startDigest } from '../digest.ts';
import { checkBody } from './body.ts';
import { localFailure } from './local-errors.ts';
import type { Body, WriteOptions, Written } from './storage.ts';

const chunkBytes = 1 << 20;
const chunksPerFlush = 64;
/** A file up to this size is copied by synchronous calls: four of them beat four trips through the thread pool by far … */
const smallFileBytes = 1 << 16;
/** … unless the file system is slow (a network one): then the calls go side by side through the pool. */
const slowCopyMs = 2;
let pace = 0;
let copiesSinceBreath = 0;
const shared = Buffer.allocUnsafeSlow(smallFileBytes + 1);

/** The bytes of a file, the next chunk being read while the last is used. */
export async function* readChunks(file: string): AsyncIterable<Uint8Array> {
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    let next = readChunk(handle, Math.min(chunkBytes, size + 1));
    for (;;) {
      const chunk = await next;
      if (chunk.byteLength === 0) return;
      next = readChunk(handle, chunkBytes);
      next.catch(() => undefined); // Where the consumer stops early nobody awaits this one.
      yield chunk;
    }
  } finally {
    await handle.close();
  }
}

async function readChunk(handle: FileHandle, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafeSlow(bytes), 0, bytes, null);
  return buffer.subarray(0, bytesRead);
}

/** Copies a body into a new or emptied file, hashing on the way, and holds it against what was promised. Not synced. */
export async function copyToFile(
  name: string,
  file: string,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  options.signal?.throwIfAborted();
  if (body.localPath !== undefined && body.size <= smallFileBytes && pace < slowCopyMs) {
    const started = performance.now();
    const written = copySmallFile(name, body.localPath, file, body, options);
    pace = 0.9 * pace + 0.1 * (performance.now() - started);
    copiesSinceBreath += 1;
    if (copiesSinceBreath % 64 === 0) await breathe();
    return written;
  }
  return body.localPath === undefined
    ? copyStream(name, file, body, options)
    : copyLargeFile(name, body.localPath, file, body, options);
}

function copySmallFile(name: string, from: string, to: string, body: Body, options: WriteOptions): Written {
  const size = readSmallFile(name, from, body.size);
  const bytes = shared.subarray(0, size);
  const digest = finishDigest(startDigest().update(bytes));
  checkBody(name, { size, digest }, { size: body.size, digest: options.digest });
  const target = openSync(to, 'w', 0o644);
  try {
    for (let done = 0; done < size;) done += writeSync(target, bytes, done, size - done);
  } finally {
    closeSync(target);
  }
  options.onBytes?.(size);
  return { size, digest, version: null };
}

/** Reads into `shared` and returns how much there was: at most one byte more than promised, so that a file that grew is noticed. */
function readSmallFile(name: string, file: string, promised: number): number {
  let size = 0;
  try {
    const source = openSync(file, 'r');
    try {
      while (size <= promised) {
        const count = readSync(source, shared, size, promised + 1 - size, null);
        if (count === 0) break;
        size += count;
      }
    } finally {
      closeSync(source);
    }
  } catch (error) {
    throw localFailure({ label: 'source' }, name, error);
  }
  return size;
}

/**
 * From file to file through three buffers that are used again and again: one is being read into, one hashed, one written. What has been written is sent to
 * the disk from time to time meanwhile, so that the sync at the end has little left to wait for.
 */
async function copyLargeFile(
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
    const buffers = [0, 1, 2].map(() => Buffer.allocUnsafeSlow(chunkBytes));
    const read = async (turn: number): Promise<Buffer> => {
      const buffer = buffers[turn % buffers.length] as Buffer;
      const { bytesRead } = await source.read(buffer, 0, chunkBytes, null);
      return buffer.subarray(0, bytesRead);
    };
    let size = 0;
    let writing: Promise<unknown> = Promise.resolve();
    let flushing: Promise<unknown> = Promise.resolve();
    let next = read(0);
    for (let turn = 1; size <= body.size; turn += 1) {
      options.signal?.throwIfAborted();
      const chunk = await next;
      if (chunk.byteLength === 0) break;
      await writing;
      writing = writeFully(target, chunk);
      // The buffer of two turns ago is free again; failures are met where these promises are awaited.
      next = read(turn);
      for (const promise of [writing, next]) promise.catch(() => undefined);
      hash.update(chunk);
      size += chunk.byteLength;
      options.onBytes?.(chunk.byteLength);
      if (turn % chunksPerFlush === 0) {
        await flushing;
        flushing = target.datasync();
        flushing.catch(() => undefined);
      }
    }
    await Promise.all([writing, flushing, next]);
    const written = { size, digest: finishDigest(hash), version: null };
    checkBody(name, written, { size: body.size, digest: options.digest });
    return written;
  } finally {
    await source.close();
    await target.close();
  }
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
