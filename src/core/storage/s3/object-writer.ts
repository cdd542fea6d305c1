import { type Digest, digestOf, finishDigest, hexOf, startDigest } from '../../lib/digest.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { createSemaphore, type Semaphore } from '../../lib/parallel.ts';
import { retry, type RetryOptions } from '../../lib/retry.ts';
import { checkBody, collect, measure } from '../body.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';
import type { BucketClient } from './client.ts';
import type { Upload } from './objects.ts';
import type { Condition } from './sdk.ts';

/** Limit for all bodies and parts in memory, in bytes. */
const memoryBytes = 96 << 20;
const maxConcurrentParts = 4;
/** S3's limit. */
const maxParts = 10_000;
const mebibyte = 1 << 20;

export interface ObjectWriterOptions {
  client: BucketClient;
  /** The storage's prefix, below which unfinished uploads are searched for. */
  prefix: string;
  label: string;
  log: Log;
  /** The size of a part in bytes. S3 itself requires at least 5 MiB. */
  partBytes: number;
  /** The retry policy for individual parts and conditional writes. The caller retries other writes. */
  retry: RetryOptions;
}

/** Returns a body's part size in bytes: the configured size, or more if there would be too many parts. */
function partSize(bodyBytes: number, partBytes: number): number {
  const min = Math.ceil(bodyBytes / maxParts);
  return min <= partBytes ? partBytes : Math.ceil(min / mebibyte) * mebibyte;
}

/**
 * Writes bodies as whole objects, either in one request from memory or in parts. No object is visible before
 * the size and digest of its whole body have been verified.
 */
export class ObjectWriter {
  readonly #options: ObjectWriterOptions;
  /** Permits are bytes of memory, shared by all uploads of a storage. */
  readonly #memory = createSemaphore(memoryBytes);
  #unfinished: Promise<Map<string, Upload[]>> | undefined;

  constructor(options: ObjectWriterOptions) {
    this.#options = options;
  }

  /**
   * Aborts an object's multipart uploads that a killed publisher left behind, which are invisible but cost
   * money. The caller must hold the lease, so that no other process can still complete them. Permission to
   * list uploads is optional. Without it, their removal is left to a lifecycle rule of the bucket.
   */
  async abortUnfinished(key: string): Promise<void> {
    const { client, log, label } = this.#options;
    // Listed once, when the first object is about to be changed.
    const byKey = await (this.#unfinished ??= this.#listUnfinished());
    const uploads = byKey.get(key);
    if (uploads === undefined) return;
    for (const upload of uploads) await client.abortUpload(upload);
    byKey.delete(key);
    log.info({ storage: label, key, uploads: uploads.length }, 'unfinished multipart uploads were aborted');
  }

  async #listUnfinished(): Promise<Map<string, Upload[]>> {
    const { client, prefix, log, label } = this.#options;
    const byKey = new Map<string, Upload[]>();
    try {
      for (const upload of await client.unfinishedUploads(prefix))
        byKey.set(upload.key, [...(byKey.get(upload.key) ?? []), upload]);
    } catch (error) {
      if (error instanceof WaybillError && error.retryable) {
        this.#unfinished = undefined;
        throw error;
      }
      log.debug({ storage: label, err: error }, 'unfinished multipart uploads cannot be listed');
    }
    return byKey;
  }

  /**
   * Writes a body in one request, after its digest has been verified in memory. `name` is used in messages,
   * and `key` is the object's key. Throws `body_mismatch`, and `storage_conflict` if the condition does not
   * hold.
   */
  async putWhole(
    { name, key }: { name: string; key: string },
    body: Body,
    write: WriteOptions,
    condition: Condition | undefined,
  ): Promise<Written> {
    const release = await this.#memory.acquire(body.size);
    try {
      const { bytes, ...read } = await collect(name, body, write);
      const { headers = {}, signal } = write;
      const options = { sha256: hexOf(read.digest), headers, condition, signal };
      const put = (): Promise<string> => this.#options.client.put(key, bytes, options);
      const version = await (condition === undefined ? put() : this.#putOrVerify(put, { key, ...read }));
      return { ...read, version };
    } finally {
      release();
    }
  }

  /**
   * When conditional writes race, servers respond with 409 or 500 whether or not the write was applied. If it
   * was, a retry violates its own condition, so the object is then compared with the bytes sent. If the first
   * attempt arrives late, it cannot replace another writer's bytes, because it carries the same condition.
   */
  async #putOrVerify(
    put: () => Promise<string>,
    sent: { key: string; size: number; digest: Digest },
  ): Promise<string> {
    const { client, retry: retryOptions } = this.#options;
    let isUncertain = false;
    return retry(retryOptions, async () => {
      try {
        return await put();
      } catch (error) {
        isUncertain ||= hasCode(error, 'storage_transient');
        if (!isUncertain || !hasCode(error, 'storage_conflict')) throw error;
        const found = await client.head(sent.key);
        if (found?.size !== sent.size || (await measure(await client.get(sent.key))).digest !== sent.digest)
          throw error;
        return found.version;
      }
    });
  }

  /**
   * Uploads a body in parts, several concurrently while the next one is read. The upload is completed, which
   * makes the object visible, only after the whole body has been verified. Otherwise, it is aborted once no
   * part is being sent. Throws `body_mismatch`, the failure of a part, or the signal's reason.
   */
  async putInParts(key: string, body: Body, write: WriteOptions): Promise<Written> {
    const { client, log, label } = this.#options;
    write.signal?.throwIfAborted();
    const sha256 = write.digest === undefined ? null : hexOf(write.digest);
    const uploadId = await client.beginUpload(key, { sha256, headers: write.headers ?? {} });
    const upload: Upload = { key, uploadId };
    const parts = new Parts(upload, write.signal, this.#options, this.#memory);
    try {
      const read = await parts.sendAll(body, write);
      write.signal?.throwIfAborted();
      return { ...read, version: await client.completeUpload(upload, parts.etags) };
    } catch (error) {
      await parts.stop(error);
      await client
        .abortUpload(upload)
        .catch((failure: unknown) =>
          log.warn(
            { storage: label, key, err: failure },
            'a multipart upload was not aborted; the next run does it',
          ),
        );
      // A publisher that takes over the lease also aborts the upload. In that case, report the lost lease
      // rather than the missing upload.
      write.signal?.throwIfAborted();
      throw error;
    }
  }
}

/** Tracks the parts of an upload that are being sent, and reuses their buffers. */
class Parts {
  readonly etags: string[] = [];
  readonly #upload: Upload;
  readonly #options: ObjectWriterOptions;
  readonly #memory: Semaphore;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  readonly #active = new Set<Promise<void>>();
  readonly #freeBuffers: Buffer[] = [];
  #failure: { error: unknown } | null = null;
  #started = 0;

  constructor(
    upload: Upload,
    signal: AbortSignal | undefined,
    options: ObjectWriterOptions,
    memory: Semaphore,
  ) {
    this.#upload = upload;
    this.#options = options;
    this.#memory = memory;
    this.#signal =
      signal === undefined ? this.#stopped.signal : AbortSignal.any([signal, this.#stopped.signal]);
  }

  /** Reads and verifies the body, and resolves once the server has every part. */
  async sendAll(body: Body, write: WriteOptions): Promise<Pick<Written, 'size' | 'digest'>> {
    const length = partSize(body.size, this.#options.partBytes);
    const hash = startDigest();
    let size = 0;
    let part: Buffer | null = null;
    let filled = 0;
    let release = (): void => undefined;
    try {
      for await (const chunk of body.open()) {
        write.signal?.throwIfAborted();
        this.#throwFailure();
        size += chunk.byteLength;
        if (size > body.size) break;
        hash.update(chunk);
        write.onBytes?.(chunk.byteLength);
        for (let at = 0; at < chunk.byteLength;) {
          if (part === null) {
            release = await this.#memory.acquire(length);
            part = this.#freeBuffers.pop() ?? Buffer.allocUnsafeSlow(length);
            filled = 0;
          }
          const count = Math.min(length - filled, chunk.byteLength - at);
          part.set(chunk.subarray(at, at + count), filled);
          filled += count;
          at += count;
          if (filled < length) continue;
          await this.#send(part, filled, release);
          [part, release] = [null, () => undefined];
        }
      }
      const read = { size, digest: finishDigest(hash) };
      checkBody(this.#upload.key, read, { size: body.size, digest: write.digest });
      if (part !== null) await this.#send(part, filled, release);
      release = () => undefined;
      await Promise.all(this.#active);
      this.#throwFailure();
      return read;
    } finally {
      release();
    }
  }

  async stop(reason: unknown): Promise<void> {
    this.#stopped.abort(reason);
    await Promise.all(this.#active);
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  /**
   * Starts sending a part, first waiting if the maximum number of parts is already being sent. Calls
   * `release` when the part's bytes are no longer needed.
   */
  async #send(buffer: Buffer, length: number, release: () => void): Promise<void> {
    const number = ++this.#started;
    const sending = this.#sendOne(number, buffer.subarray(0, length))
      .catch((error: unknown) => {
        this.#failure ??= { error };
        this.#stopped.abort(error);
      })
      .finally(() => {
        this.#active.delete(sending);
        this.#freeBuffers.push(buffer);
        release();
      });
    this.#active.add(sending);
    while (this.#active.size >= maxConcurrentParts) await Promise.race(this.#active);
    this.#throwFailure();
  }

  async #sendOne(number: number, bytes: Buffer): Promise<void> {
    const { client } = this.#options;
    // Hash synchronously. The thread pool would need a copy of the bytes, which takes as long as hashing
    // them.
    const sha256 = client.isEncrypted ? null : hexOf(digestOf(bytes));
    await retry({ ...this.#options.retry, signal: this.#signal }, async () => {
      const etag = await client.putPart({ ...this.#upload, number }, bytes, { sha256, signal: this.#signal });
      this.etags[number - 1] = etag;
    });
  }
}
