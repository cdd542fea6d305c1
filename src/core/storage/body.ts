import { finishDigest, startDigest, type Digest } from '../digest.ts';
import { WaybillError } from '../errors.ts';
import type { Body, Storage } from './storage.ts';
import type { Key } from './key.ts';

export function bytesBody(bytes: Uint8Array | string): Body {
  const buffer = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  return {
    size: buffer.byteLength,
    async *open() {
      if (buffer.byteLength > 0) yield buffer;
    },
  };
}

/** A file of a storage, as a body; with its path where it is a file of this machine. */
export function storedBody(storage: Storage, key: Key, size: number): Body {
  return new StoredBody(storage, key, size);
}

/** A class and not a closure: a bundle may have a hundred thousand of them. */
class StoredBody implements Body {
  readonly size: number;
  readonly #storage: Storage;
  readonly #key: Key;

  constructor(storage: Storage, key: Key, size: number) {
    this.size = size;
    this.#storage = storage;
    this.#key = key;
  }

  get localPath(): string | undefined {
    const { localRoot } = this.#storage.facts;
    return localRoot === null ? undefined : `${localRoot}/${this.#key}`;
  }

  open(): AsyncIterable<Uint8Array> {
    return this.#storage.read(this.#key);
  }
}

/** The whole of a small file; `storage_permanent` where it is larger than `limit` bytes. */
export async function readAll(storage: Storage, key: Key, limit: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of storage.read(key)) {
    size += chunk.byteLength;
    if (size > limit)
      throw new WaybillError('storage_permanent', `${storage.label}: "${key}" is larger than ${limit} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Size and digest of a stream, in one pass. */
export async function measure(
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

/** Throws `body_mismatch` where what was read is not what was promised. */
export function checkBody(
  name: string,
  actual: { size: number; digest: Digest },
  expected: { size: number; digest?: Digest | undefined },
): void {
  if (actual.size !== expected.size)
    throw new WaybillError(
      'body_mismatch',
      `"${name}": ${actual.size} bytes were read where ${expected.size} were expected`,
      {
        hint: 'the source changed while it was read; run again when it is complete',
      },
    );
  if (expected.digest !== undefined && actual.digest !== expected.digest)
    throw new WaybillError(
      'body_mismatch',
      `"${name}": the bytes have the digest ${actual.digest} where ${expected.digest} was expected`,
      {
        hint: 'the source changed, or its manifest declares a wrong digest; mend the bundle and run again',
      },
    );
}
