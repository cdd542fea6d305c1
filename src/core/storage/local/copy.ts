import { open } from 'node:fs/promises';
import { setImmediate as breathe } from 'node:timers/promises';
import { finishDigest, startDigest } from '../../digest.ts';
import type { WaybillError } from '../../errors.ts';
import { checkBody } from '../body.ts';
import { collect } from '../collect.ts';
import type { Key } from '../key.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';
import { copyLargeFile } from './copy-large-file.ts';
import { localFailure } from './errors.ts';
import {
  readSmallFile,
  readSmallFileInPool,
  reads,
  smallFileBytes,
  writes,
  writeSmallFile,
} from './small-files.ts';
import { writeFully } from './write-fully.ts';

/** Small files are copied without waiting; after this many of them the event loop gets its turn. */
const copiesPerBreath = 64;
let copiesSinceBreath = 0;

/**
 * Writes a body to a new or truncated file, hashing it on the way, and verifies its size and digest. The file
 * is not synced. Throws `body_mismatch`, or an error of the source labelled "source"; errors of the target
 * are thrown as Node.js reports them.
 */
export async function copyToFile(
  key: Key,
  file: string,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  options.signal?.throwIfAborted();
  const { localPath } = body;
  const isSmall = body.size <= smallFileBytes;
  if (localPath !== undefined && !isSmall) return copyLargeFile(key, localPath, file, body, options);
  if (!isSmall || writes.isSlow()) return copyStream(key, file, body, options);
  if (localPath !== undefined) return copySmallFile(key, localPath, file, body, options);
  const { bytes, ...read } = await collect(key, body, options);
  writes.time(() => writeSmallFile(file, bytes));
  return { ...read, version: null };
}

async function copySmallFile(
  key: Key,
  from: string,
  to: string,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  copiesSinceBreath += 1;
  if (copiesSinceBreath % copiesPerBreath === 0) await breathe();
  if (reads.isSlow()) {
    const bytes = await readSmallFileInPool(from, body.size).catch((error: unknown) => {
      throw sourceFailure(key, error);
    });
    return writeVerified(key, to, bytes, body, options);
  }
  // Nothing may be awaited between reading and writing: the buffer is shared with the other copies.
  return writeVerified(key, to, readSource(key, from, body.size), body, options);
}

function readSource(key: Key, file: string, expected: number): Buffer {
  try {
    return reads.time(() => readSmallFile(file, expected));
  } catch (error) {
    throw sourceFailure(key, error);
  }
}

function sourceFailure(key: Key, error: unknown): WaybillError {
  return localFailure({ label: 'source' }, key, error);
}

function writeVerified(key: Key, file: string, bytes: Buffer, body: Body, options: WriteOptions): Written {
  const size = bytes.byteLength;
  const digest = finishDigest(startDigest().update(bytes));
  checkBody(key, { size, digest }, { size: body.size, digest: options.digest });
  writes.time(() => writeSmallFile(file, bytes));
  options.onBytes?.(size);
  return { size, digest, version: null };
}

async function copyStream(key: Key, file: string, body: Body, options: WriteOptions): Promise<Written> {
  const handle = await open(file, 'w', 0o644);
  try {
    const hash = startDigest();
    let size = 0;
    let writing: Promise<unknown> = Promise.resolve();
    for await (const chunk of body.open()) {
      options.signal?.throwIfAborted();
      const started = writing.then(() => writeFully(handle, chunk));
      started.catch(() => undefined); // Awaited below, as `writing`.
      hash.update(chunk); // While the previous chunk is being written.
      await writing;
      writing = started;
      size += chunk.byteLength;
      options.onBytes?.(chunk.byteLength);
      if (size > body.size) break;
    }
    await writing;
    const written = { size, digest: finishDigest(hash), version: null };
    checkBody(key, written, { size: body.size, digest: options.digest });
    return written;
  } finally {
    await handle.close();
  }
}
