import { type Digest, finishDigest, startDigest } from '../lib/digest.ts';
import { WaybillError } from '../lib/errors.ts';
import type { Key } from './key.ts';
import type { Body, FileIdentity, Storage, WriteOptions, Written } from './storage.ts';

/** Creates a body from bytes in memory. Text is encoded as UTF-8. */
export function bytesBody(bytes: Uint8Array | string): Body {
  const buffer = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  return {
    size: buffer.byteLength,
    async *open() {
      if (buffer.byteLength > 0) yield buffer;
    },
  };
}

/**
 * Creates a body of `size` bytes that is read from a storage. If there is an `identity`, reading fails if the
 * file has been replaced since it was listed.
 */
export function storedBody(
  storage: Storage,
  { key, size, identity }: { key: Key; size: number; identity?: FileIdentity | undefined },
): Body {
  return new StoredBody(storage, key, size, identity);
}

/** A class instead of a closure, because a bundle may have a hundred thousand of them. */
class StoredBody implements Body {
  readonly size: number;
  readonly #storage: Storage;
  readonly #key: Key;
  readonly #identity: FileIdentity | undefined;

  constructor(storage: Storage, key: Key, size: number, identity: FileIdentity | undefined) {
    this.size = size;
    this.#storage = storage;
    this.#key = key;
    this.#identity = identity;
  }

  /**
   * Reads the bytes. A server could keep sending forever, so this stops as soon as there are more than `size`
   * of them. Readers notice, because they count the bytes.
   */
  async *open(): AsyncIterable<Uint8Array> {
    let size = 0;
    for await (const chunk of this.#storage.read(this.#key, this.#identity)) {
      yield chunk;
      size += chunk.byteLength;
      if (size > this.size) return;
    }
  }
}

/**
 * Reads an entire file into memory. Throws `storage_permanent` if it is larger than `limit` bytes, or else
 * the errors of `storage.read`.
 */
export async function readAll(
  storage: Storage,
  key: Key,
  limit: number,
  expected?: FileIdentity,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of storage.read(key, expected)) {
    size += chunk.byteLength;
    if (size > limit)
      throw new WaybillError('storage_permanent', `${storage.label}: "${key}" is larger than ${limit} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Determines the size of a stream in bytes and its digest in a single pass. `onBytes` is called with the size
 * of each chunk.
 */
export async function sizeAndDigest(
  chunks: AsyncIterable<Uint8Array>,
  onBytes?: (count: number) => void,
): Promise<{ size: number; digest: Digest }> {
  const hash = startDigest();
  let size = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    size += chunk.byteLength;
    onBytes?.(chunk.byteLength);
  }
  return { size, digest: finishDigest(hash) };
}

/** Throws `body_mismatch` if the size or digest isn't the expected one. `name` is used in the message. */
export function checkBody(
  name: string,
  actual: { size: number; digest: Digest },
  expected: { size: number; digest?: Digest | undefined },
): void {
  if (actual.size !== expected.size)
    throw new WaybillError(
      'body_mismatch',
      `"${name}": ${actual.size} bytes were read, but ${expected.size} were expected`,
      {
        hint: 'the source changed while it was read; run again when it is complete',
      },
    );
  if (expected.digest !== undefined && actual.digest !== expected.digest)
    throw new WaybillError(
      'body_mismatch',
      `"${name}": the bytes have the digest ${actual.digest}, but ${expected.digest} was expected`,
      {
        hint: 'the source changed, or its manifest declares a wrong digest; correct the bundle and run again',
      },
    );
}

/**
 * Reads a body into memory and verifies its size and digest. If the body consists of a single chunk, it isn't
 * copied. Throws `body_mismatch`, or the signal's reason if that aborts.
 */
export async function readBody(
  name: string,
  body: Body,
  { signal, digest, onBytes, outputName = name }: WriteOptions,
): Promise<{ bytes: Uint8Array } & Pick<Written, 'size' | 'digest'>> {
  const hash = startDigest();
  let only: Uint8Array | null = null;
  let all: Buffer | null = null;
  let size = 0;
  for await (const chunk of body.open()) {
    signal?.throwIfAborted();
    const at = size;
    size += chunk.byteLength;
    if (size > body.size) break;
    hash.update(chunk);
    if (at === 0) only = chunk;
    else {
      all ??= bufferOf(only, body.size);
      all.set(chunk, at);
    }
    onBytes?.(chunk.byteLength);
  }
  const read = { size, digest: finishDigest(hash) };
  checkBody(outputName, read, { size: body.size, digest });
  return { ...read, bytes: all ?? only ?? new Uint8Array() };
}

function bufferOf(start: Uint8Array | null, size: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(size);
  if (start !== null) bytes.set(start);
  return bytes;
}
