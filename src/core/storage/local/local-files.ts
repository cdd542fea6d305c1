import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  openSync,
  read as readCallback,
  readSync,
  statfsSync,
  type Stats,
  unlinkSync,
  write as writeCallback,
  writeSync,
} from 'node:fs';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { promisify } from 'node:util';
import { finishDigest, startDigest } from '../../lib/digest.ts';
import { WaybillError } from '../../lib/errors.ts';
import { errnoOf } from '../../lib/system-errors.ts';
import { checkBody, readBody } from '../body.ts';
import type { Key } from '../key.ts';
import type { Body, FileIdentity, Storage, WriteOptions, Written } from '../storage.ts';
import { applyMode } from './local-root.ts';

/* Opens, reads, and writes files, without following links. */

/** Without O_NONBLOCK, opening a named pipe would block the thread until another process writes to it. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
const createFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * File systems whose inode numbers may be different each time, by the `f_type` from statfs(2): FUSE, CIFS,
 * SMB2, and 9p.
 */
const changesInodes = new Set([0x65735546, 0xff534d42, 0xfe534d42, 0x01021997]);

const chunkBytes = 1 << 20;
/**
 * Up to this size in bytes, files are read and written with synchronous calls, as long as those are fast.
 * Three system calls that take a few microseconds each are much cheaper than going through the thread pool
 * three times.
 */
const smallFileBytes = 1 << 16;
/** After this many small files, a thread yields to timers and other work. */
const filesPerYield = 64;
/** Flush every 32 MiB. This way, copying 1 GiB on ext4 takes 0.9–2.0 s. With 128 MiB, it takes 1.6–2.4 s. */
const flushEveryBytes = 32 << 20;

const readSome = promisify(readCallback);
const writeSome = promisify(writeCallback);
const flush = promisify(fdatasync);

/**
 * Measures how fast synchronous calls are, since a file system may be slow, for example if it is on the
 * network. If most of the latest calls took more than `slowMs` milliseconds, calls should go through the
 * thread pool, where they can run in parallel. A single slow call does not mean much, because on a busy
 * machine, the thread may simply have been interrupted.
 */
class DirectCalls {
  readonly #slowMs: number;
  /** A moving average. It is 1 if all of the latest calls were slow. */
  #slowShare = 0;

  constructor(slowMs: number) {
    this.#slowMs = slowMs;
  }

  /**
   * Returns true if the next call should go through the thread pool. After about 70 calls, a synchronous one
   * is tried again.
   */
  areSlow(): boolean {
    const areSlow = this.#slowShare > 0.5;
    if (areSlow) this.#slowShare *= 0.99;
    return areSlow;
  }

  run<T>(work: () => T): T {
    const started = performance.now();
    try {
      return work();
    } finally {
      const isSlow = performance.now() - started > this.#slowMs;
      this.#slowShare = 0.9 * this.#slowShare + (isSlow ? 0.1 : 0);
      if (this.#slowShare > 0.5) this.#slowShare = 1;
    }
  }
}

/** Opening, reading, and closing a cached file takes about 0.02 ms, a disk access 0.06 ms or more. */
const reads = new DirectCalls(0.1);
const writes = new DirectCalls(2);
let smallFiles = 0;

/**
 * Opens a regular file for reading, without following links, and returns its descriptor. Throws
 * `storage_permanent` if it is not a regular file, `body_mismatch` if it is not the file that was listed as
 * `expected`, and system errors as reported by Node.js.
 */
export function openToRead(
  storage: Pick<Storage, 'label'>,
  key: string,
  file: string,
  expected?: FileIdentity,
): number {
  let opened: number;
  try {
    opened = openSync(file, readFlags);
  } catch (error) {
    // ELOOP means that it is a symbolic link, ENXIO that it is a socket.
    if (errnoOf(error) !== 'ELOOP' && errnoOf(error) !== 'ENXIO') throw error;
    throw notTheFile(storage, key, expected, error);
  }
  try {
    const found = fstatSync(opened);
    if (!found.isFile() || (expected !== undefined && !isSame(opened, found, expected)))
      throw notTheFile(storage, key, expected);
    return opened;
  } catch (error) {
    closeSync(opened);
    throw error;
  }
}

function isSame(opened: number, found: Stats, { inode, device }: FileIdentity): boolean {
  if (found.ino === inode && found.dev === device) return true;
  return process.platform === 'linux' && changesInodes.has(statfsSync(`/proc/self/fd/${opened}`).type);
}

function notTheFile(
  storage: Pick<Storage, 'label'>,
  key: string,
  expected: FileIdentity | undefined,
  cause?: unknown,
): WaybillError {
  if (expected === undefined)
    return new WaybillError('storage_permanent', `${storage.label}: "${key}" is not a file`, {
      cause,
      hint: 'remove it, or put a file there; symbolic links are not followed',
    });
  return new WaybillError('body_mismatch', `${storage.label}: "${key}" was replaced after it was listed`, {
    cause,
    hint: 'the source changed while it was read; run again when it is complete',
  });
}

/**
 * Creates a file with exactly this mode, whatever the umask is, and returns its descriptor. If an earlier
 * attempt or another user left a file or link there, it is deleted rather than written to.
 */
export function createFile(file: string, mode: number): number {
  const opened = openNew(file, mode);
  try {
    applyMode(opened, mode);
    return opened;
  } catch (error) {
    closeSync(opened);
    throw error;
  }
}

function openNew(file: string, mode: number): number {
  try {
    return openSync(file, createFlags, mode);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    unlinkSync(file);
    return openSync(file, createFlags, mode);
  }
}

/**
 * Reads a file in chunks. `open` opens the file and may be called twice. While the caller is busy with one
 * chunk of a large file, the next one is already being read.
 */
export async function* readChunks(open: () => number): AsyncIterable<Uint8Array> {
  const whole = reads.areSlow() ? null : reads.run(() => readIfSmall(open()));
  if (whole !== null) {
    if (whole.byteLength > 0) yield whole;
    return;
  }
  const source = open();
  const firstBytes = Math.min(fstatSync(source).size, smallFileBytes) + 1;
  let next = readChunk(source, firstBytes);
  try {
    for (let isFirst = true; ; isFirst = false) {
      const chunk = await next;
      if (chunk.byteLength === 0) return;
      // If we get less than we asked for, that is the whole file. Reading again would only confirm it.
      const isComplete = isFirst && chunk.byteLength < firstBytes;
      if (!isComplete) {
        next = readChunk(source, chunkBytes);
        next.catch(() => undefined); // If the caller stops early, only `finally` waits for this.
      }
      yield chunk;
      if (isComplete) return;
    }
  } finally {
    // Do not close the file during a read. The read could then return bytes of the file that gets opened
    // next.
    await next.catch(() => undefined);
    closeSync(source);
  }
}

async function readChunk(source: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await readSome(source, Buffer.allocUnsafeSlow(bytes), 0, bytes, null);
  return buffer.subarray(0, bytesRead);
}

const scratch = Buffer.allocUnsafeSlow(smallFileBytes + 1);

/** Returns the contents of a file, or null if it is larger than `smallFileBytes`. Closes `source`. */
function readIfSmall(source: number): Buffer | null {
  try {
    const size = readSync(source, scratch, 0, scratch.length, 0);
    return size > smallFileBytes ? null : Buffer.from(scratch.subarray(0, size));
  } finally {
    closeSync(source);
  }
}

/**
 * Writes a body to the file that `create` creates, and verifies its size and digest. Does not sync the file.
 * Throws `body_mismatch`, the errors of the body, and system errors as reported by Node.js.
 */
export async function writeBody(
  key: Key,
  create: () => number,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  options.signal?.throwIfAborted();
  if (body.size > smallFileBytes || writes.areSlow()) return writeStream(key, create, body, options);
  smallFiles += 1;
  if (smallFiles % filesPerYield === 0) await yieldToEventLoop();
  const { bytes, ...read } = await readBody(key, body, options);
  writes.run(() => writeSmallFile(create(), bytes));
  return { ...read, version: null };
}

/** Writes the whole file and closes `target`. */
function writeSmallFile(target: number, bytes: Uint8Array): void {
  try {
    for (let done = 0; done < bytes.byteLength;)
      done += writeSync(target, bytes, done, bytes.byteLength - done);
  } finally {
    closeSync(target);
  }
}

/** While one chunk is being written, the next one is already hashed. */
async function writeStream(
  key: Key,
  create: () => number,
  body: Body,
  { digest, signal, onBytes, outputName = key }: WriteOptions,
): Promise<Written> {
  const target = create();
  const flusher = new EarlyFlusher(target);
  let writing: Promise<unknown> = Promise.resolve();
  try {
    const hash = startDigest();
    let size = 0;
    for await (const chunk of body.open()) {
      signal?.throwIfAborted();
      const started = writing.then(() => writeFully(target, chunk));
      started.catch(() => undefined); // Awaited below, through `writing`.
      hash.update(chunk);
      await writing;
      writing = started;
      size += chunk.byteLength;
      onBytes?.(chunk.byteLength);
      flusher.wrote(chunk.byteLength);
      if (size > body.size) break;
    }
    await writing;
    const written = { size, digest: finishDigest(hash), version: null };
    checkBody(outputName, written, { size: body.size, digest });
    return written;
  } finally {
    await Promise.allSettled([writing, flusher.settled()]);
    closeSync(target);
  }
}

/** Writes all of `bytes` at the current position. A single system call may not write everything. */
async function writeFully(target: number, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await writeSome(target, bytes, done, bytes.byteLength - done, null);
    done += bytesWritten;
  }
}

/**
 * Flushes data to disk while a file is being copied, so that the final sync does not take long. Failures can
 * be ignored, because the final sync reports them.
 */
class EarlyFlusher {
  readonly #target: number;
  #unflushed = 0;
  #flushing: Promise<void> | undefined;

  constructor(target: number) {
    this.#target = target;
  }

  wrote(bytes: number): void {
    this.#unflushed += bytes;
    if (this.#unflushed < flushEveryBytes || this.#flushing !== undefined) return;
    this.#unflushed = 0;
    this.#flushing = flush(this.#target)
      .catch(() => undefined)
      .finally(() => (this.#flushing = undefined));
  }

  async settled(): Promise<void> {
    await this.#flushing;
  }
}
