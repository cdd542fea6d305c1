import { digestOf, finishDigest, hexOf, startDigest } from '../../lib/digest.ts';
import { retry, type RetryOptions } from '../../lib/retry.ts';
import { checkBody } from '../body.ts';
import type { Semaphore } from '../../lib/parallel.ts';
import type { S3Wire, Upload } from './wire.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';

/** The limit of S3. */
const mostParts = 10_000;
const mebibyte = 1 << 20;

export interface MultipartOptions {
  wire: S3Wire;
  /** Permits are bytes of memory, shared by all uploads of a storage. */
  budget: Semaphore;
  /** The size of a part, in bytes; at least 5 MiB for S3 itself. */
  partBytes: number;
  partsAtOnce: number;
  /** How each part is retried by itself, so that the others need not be sent again. */
  retry: RetryOptions;
  onAbortFailed: (upload: Upload, error: unknown) => void;
}

/** The part size of a body, in bytes: as configured, or larger if there would be too many parts. Pure. */
export function partSize(bodyBytes: number, partBytes: number): number {
  const atLeast = Math.ceil(bodyBytes / mostParts);
  return atLeast <= partBytes ? partBytes : Math.ceil(atLeast / mebibyte) * mebibyte;
}

/**
 * Uploads a body in parts, several at once while the next one is read. The upload is completed, which makes
 * the object visible, only after size and digest of the whole body have been verified. Otherwise it is
 * aborted once no part is being sent any more. Throws `body_mismatch`, what a part fails with, or the reason
 * of the signal.
 */
export async function uploadInParts(
  key: string,
  body: Body,
  write: WriteOptions,
  options: MultipartOptions,
): Promise<Written> {
  const { wire } = options;
  write.signal?.throwIfAborted();
  const sha256 = write.digest === undefined ? null : hexOf(write.digest);
  const uploadId = await wire.beginUpload(key, { sha256, headers: write.headers ?? {} });
  const upload: Upload = { key, uploadId };
  const parts = new Parts(upload, write.signal, options);
  try {
    const read = await readInParts(key, body, write, options, parts);
    const etags = await parts.all();
    write.signal?.throwIfAborted();
    return { ...read, version: await wire.completeUpload(upload, etags) };
  } catch (error) {
    await parts.stop(error);
    await wire.abortUpload(upload).catch((failure: unknown) => options.onAbortFailed(upload, failure));
    // A publisher that took over the lease aborts the upload, too. Report the lost lease then, rather than
    // the missing upload.
    write.signal?.throwIfAborted();
    throw error;
  }
}

async function readInParts(
  key: string,
  body: Body,
  write: WriteOptions,
  { budget, partBytes }: MultipartOptions,
  parts: Parts,
): Promise<Pick<Written, 'size' | 'digest'>> {
  const length = partSize(body.size, partBytes);
  const hash = startDigest();
  let size = 0;
  let part: Buffer | null = null;
  let filled = 0;
  let release = (): void => undefined;
  try {
    for await (const chunk of body.open()) {
      write.signal?.throwIfAborted();
      parts.check();
      size += chunk.byteLength;
      if (size > body.size) break;
      hash.update(chunk);
      write.onBytes?.(chunk.byteLength);
      for (let at = 0; at < chunk.byteLength;) {
        if (part === null) {
          release = await budget.acquire(length);
          part = parts.buffer(length);
          filled = 0;
        }
        const count = Math.min(length - filled, chunk.byteLength - at);
        part.set(chunk.subarray(at, at + count), filled);
        filled += count;
        at += count;
        if (filled < length) continue;
        await parts.send(part, filled, release);
        [part, release] = [null, () => undefined];
      }
    }
    const read = { size, digest: finishDigest(hash) };
    checkBody(key, read, { size: body.size, digest: write.digest });
    if (part !== null) await parts.send(part, filled, release);
    release = () => undefined;
    return read;
  } finally {
    release();
  }
}

/** The parts of one upload that are being sent, and their buffers, which are used again. */
class Parts {
  readonly #upload: Upload;
  readonly #options: MultipartOptions;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  readonly #underWay = new Set<Promise<void>>();
  readonly #etags: string[] = [];
  readonly #free: Buffer[] = [];
  #failure: { error: unknown } | null = null;
  #sent = 0;

  constructor(upload: Upload, signal: AbortSignal | undefined, options: MultipartOptions) {
    this.#upload = upload;
    this.#options = options;
    this.#signal =
      signal === undefined ? this.#stopped.signal : AbortSignal.any([signal, this.#stopped.signal]);
  }

  /** Throws the failure of a part, if any. */
  check(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  buffer(length: number): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(length);
  }

  /**
   * Starts sending a part, and waits while the maximum number of parts is being sent. `release` is called
   * when its bytes are no longer needed.
   */
  async send(buffer: Buffer, length: number, release: () => void): Promise<void> {
    const number = ++this.#sent;
    const sending = this.#sendOne(number, buffer.subarray(0, length))
      .catch((error: unknown) => {
        this.#failure ??= { error };
        this.#stopped.abort(error);
      })
      .finally(() => {
        this.#underWay.delete(sending);
        this.#free.push(buffer);
        release();
      });
    this.#underWay.add(sending);
    while (this.#underWay.size >= this.#options.partsAtOnce) await Promise.race(this.#underWay);
    this.check();
  }

  async all(): Promise<readonly string[]> {
    await Promise.all(this.#underWay);
    this.check();
    return this.#etags;
  }

  async stop(reason: unknown): Promise<void> {
    this.#stopped.abort(reason);
    await Promise.all(this.#underWay);
  }

  async #sendOne(number: number, bytes: Buffer): Promise<void> {
    const { wire } = this.#options;
    // Synchronously: the thread pool would need a copy of the bytes, which takes as long as hashing them.
    const sha256 = wire.isEncrypted ? null : hexOf(digestOf(bytes));
    await retry({ ...this.#options.retry, signal: this.#signal }, async () => {
      const etag = await wire.putPart({ ...this.#upload, number }, bytes, { sha256, signal: this.#signal });
      this.#etags[number - 1] = etag;
    });
  }
}
