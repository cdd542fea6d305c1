import { closeSync } from 'node:fs';
import { setImmediate as breathe } from 'node:timers/promises';
import { digestOf, finishDigest, startDigest } from '../../lib/digest.ts';
import type { WaybillError } from '../../lib/errors.ts';
import { checkBody } from '../body.ts';
import { collect } from '../collect.ts';
import type { Key } from '../key.ts';
import type { Body, LocalFile, WriteOptions, Written } from '../storage.ts';
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

/** Creates the file to be written, once, and returns its descriptor. */
export type CreateFile = () => number;

/**
 * Writes a body to a new file, hashing it on the way, and verifies its size and digest. The file is not
 * synced. Throws `body_mismatch`, or an error of the source labelled "source"; errors of the target are
 * thrown as Node.js reports them.
 */
export async function copyToFile(
  key: Key,
  create: CreateFile,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  options.signal?.throwIfAborted();
  const { localFile } = body;
  const isSmall = body.size <= smallFileBytes;
  if (localFile !== undefined && !isSmall) return copyLargeFile(key, localFile, create, body, options);
  if (!isSmall || writes.isSlow()) return copyStream(key, create, body, options);
  if (localFile !== undefined) return copySmallFile(key, localFile, create, body, options);
  const { bytes, ...read } = await collect(key, body, options);
  writes.time(() => writeSmallFile(create(), bytes));
  return { ...read, version: null };
}

async function copySmallFile(
  key: Key,
  from: LocalFile,
  create: CreateFile,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  copiesSinceBreath += 1;
  if (copiesSinceBreath % copiesPerBreath === 0) await breathe();
  if (reads.isSlow()) {
    const bytes = await readInPool(from, body.size).catch((error: unknown) => {
      throw sourceFailure(key, error);
    });
    return writeVerified(key, create, bytes, body, options);
  }
  // Nothing may be awaited between reading and writing: the buffer is shared with the other copies.
  return writeVerified(key, create, readSource(key, from, body.size), body, options);
}

async function readInPool(from: LocalFile, expected: number): Promise<Buffer> {
  return readSmallFileInPool(from.open(), expected);
}

function readSource(key: Key, from: LocalFile, expected: number): Buffer {
  try {
    return reads.time(() => readSmallFile(from.open(), expected));
  } catch (error) {
    throw sourceFailure(key, error);
  }
}

function sourceFailure(key: Key, error: unknown): WaybillError {
  return localFailure({ label: 'source' }, key, error);
}

function writeVerified(
  key: Key,
  create: CreateFile,
  bytes: Buffer,
  body: Body,
  options: WriteOptions,
): Written {
  const size = bytes.byteLength;
  const digest = digestOf(bytes);
  checkBody(key, { size, digest }, { size: body.size, digest: options.digest });
  writes.time(() => writeSmallFile(create(), bytes));
  options.onBytes?.(size);
  return { size, digest, version: null };
}

async function copyStream(key: Key, create: CreateFile, body: Body, options: WriteOptions): Promise<Written> {
  const target = create();
  let writing: Promise<unknown> = Promise.resolve();
  try {
    const hash = startDigest();
    let size = 0;
    for await (const chunk of body.open()) {
      options.signal?.throwIfAborted();
      const started = writing.then(() => writeFully(target, chunk));
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
    await writing.catch(() => undefined);
    closeSync(target);
  }
}
