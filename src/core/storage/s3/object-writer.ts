import { type Digest, digestOf, finishDigest, hexOf, startDigest } from '../../lib/digest.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { createSemaphore, type Semaphore } from '../../lib/parallel.ts';
import { retry, type RetryOptions } from '../../lib/retry.ts';
import { checkBody, readBody, sizeAndDigest } from '../body.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';
import { unfinishedUploads } from './listing.ts';
import type { OpenUpload } from './objects.ts';
import type { BucketClient } from './s3-client.ts';
import type { Condition } from './sdk.ts';

/** The maximum memory for all bodies and parts together, in bytes. */
const memoryBytes = 96 << 20;
const maxConcurrentParts = 4;
/** S3's limit for the number of parts. */
const maxParts = 10_000;
const mebibyte = 1 << 20;

interface ObjectWriterOptions {
  client: BucketClient;
  /** The prefix of the storage. Unfinished uploads are searched for below it. */
  prefix: string;
  label: string;
  log: Log;
  /** The size of a part in bytes. S3 itself does not allow less than 5 MiB. */
  partBytes: number;
  /** The retry policy for individual parts and conditional writes. Other writes are retried by the caller. */
  retry: RetryOptions;
}

/**
 * Returns the part size for a body in bytes. It is the configured size, unless that would result in too many
 * parts.
 */
function partSize(bodyBytes: number, partBytes: number): number {
  const min = Math.ceil(bodyBytes / maxParts);
  return min <= partBytes ? partBytes : Math.ceil(min / mebibyte) * mebibyte;
}

/**
 * Writes bodies as complete objects, either from memory in a single request, or in parts. An object is not
 * visible until the size and digest of its whole body have been verified.
 */
export class ObjectWriter {
  readonly #options: ObjectWriterOptions;
  /** The permits are bytes of memory. All uploads of a storage share them. */
  readonly #memory = createSemaphore(memoryBytes);
  #unfinished: Promise<Map<string, OpenUpload[]>> | undefined;

  constructor(options: ObjectWriterOptions) {
    this.#options = options;
  }

  /**
   * Aborts multipart uploads for this object that were left behind by a publisher that got killed. They
   * cannot be seen but cost money. The caller must hold the lease, so that no other process can still be
   * about to complete them. Without permission to list uploads, this does nothing, and a lifecycle rule of
   * the bucket has to delete them.
   */
  async abortUnfinished(key: string): Promise<void> {
    const { client, log, label } = this.#options;
    // Uploads are only listed once, before the first object is changed.
    const byKey = await (this.#unfinished ??= this.#listUnfinished());
    const uploads = byKey.get(key);
    if (uploads === undefined) return;
    for (const upload of uploads) await client.abortUpload(upload);
    byKey.delete(key);
    log.info({ storage: label, key, uploads: uploads.length }, 'unfinished multipart uploads were aborted');
  }

  async #listUnfinished(): Promise<Map<string, OpenUpload[]>> {
    const { client, prefix, log, label } = this.#options;
    const byKey = new Map<string, OpenUpload[]>();
    try {
      for (const upload of await unfinishedUploads({ client, label }, prefix)) {
        const uploads = byKey.get(upload.key) ?? [];
        uploads.push(upload);
        byKey.set(upload.key, uploads);
      }
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
   * Writes a body in a single request, after verifying its digest in memory. `key` is the object's key, and
   * `name` is for messages. Throws `body_mismatch`, or `storage_conflict` if the condition is not met.
   */
  async putWhole(
    { name, key }: { name: string; key: string },
    body: Body,
    write: WriteOptions,
    condition: Condition | undefined,
  ): Promise<Written> {
    const release = await this.#memory.acquire(body.size);
    try {
      const { bytes, ...read } = await readBody(name, body, write);
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
   * Executes a conditional write and, if necessary, checks its outcome. When several conditional writes
   * compete, servers may answer 409 or 500 even if the write has succeeded. In that case, the retry's
   * condition is no longer met, so the object is compared with the bytes that were sent. If the first attempt
   * arrives late, it cannot overwrite what another writer has stored in the meantime, because it has the same
   * condition.
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
        if (
          found?.size !== sent.size ||
          (await sizeAndDigest(await client.get(sent.key))).digest !== sent.digest
        )
          throw error;
        return found.version;
      }
    });
  }

  /**
   * Uploads a body in parts. Several of them are sent at the same time, while the next one is read. The
   * upload is not completed, which is what makes the object visible, until the whole body has been verified.
   * If anything goes wrong, the upload is aborted as soon as no part is being sent anymore. Throws
   * `body_mismatch`, the error of a part, or the signal's reason.
   */
  async putInParts(key: string, body: Body, write: WriteOptions): Promise<Written> {
    const { client, log, label } = this.#options;
    write.signal?.throwIfAborted();
    const sha256 = write.digest === undefined ? null : hexOf(write.digest);
    const uploadId = await client.beginUpload(key, { sha256, headers: write.headers ?? {} });
    const upload: OpenUpload = { key, uploadId };
    const parts = new UploadedParts(upload, write.signal, this.#options, this.#memory);
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
      // When another publisher takes over the lease, it aborts this upload. The error should be about the
      // lost lease then, rather than the missing upload.
      write.signal?.throwIfAborted();
      throw error;
    }
  }
}

/** Keeps track of the parts that are being sent, and reuses their buffers. */
class UploadedParts {
  readonly etags: string[] = [];
  readonly #upload: OpenUpload;
  readonly #options: ObjectWriterOptions;
  readonly #memory: Semaphore;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  readonly #active = new Set<Promise<void>>();
  readonly #freeBuffers: Buffer[] = [];
  #failure: { error: unknown } | null = null;
  #started = 0;

  constructor(
    upload: OpenUpload,
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

  /** Reads and verifies the body. Resolves once the server has received all parts. */
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
      checkBody(write.outputName ?? this.#upload.key, read, { size: body.size, digest: write.digest });
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
   * Starts sending a part. If too many parts are already being sent, waits for one of them first. Calls
   * `release` as soon as the bytes of this part are not needed anymore.
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
    // Hash synchronously. The thread pool needs a copy of the bytes, and making one takes as long as hashing
    // them.
    const sha256 = client.isEncrypted ? null : hexOf(digestOf(bytes));
    await retry({ ...this.#options.retry, signal: this.#signal }, async () => {
      const etag = await client.putPart({ ...this.#upload, number }, bytes, { sha256, signal: this.#signal });
      this.etags[number - 1] = etag;
    });
  }
}
