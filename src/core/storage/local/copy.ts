import { open } from 'node:fs/promises';
import { setImmediate as breathe } from 'node:timers/promises';
import { finishDigest, startDigest } from '../../digest.ts';
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
  const bytes = await readSource(key, from, body.size);
  const size = bytes.byteLength;
  const digest = finishDigest(startDigest().update(bytes));
  checkBody(key, { size, digest }, { size: body.size, digest: options.digest });
  writes.time(() => writeSmallFile(to, bytes));
  options.onBytes?.(size);
  return { size, digest, version: null };
}

async function readSource(key: Key, file: string, expected: number): Promise<Buffer> {
  try {
    if (reads.isSlow()) return await readSmallFileInPool(file, expected);
    return reads.time(() => readSmallFile(file, expected));
  } catch (error) {
    throw localFailure({ label: 'source' }, key, error);
  }
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
