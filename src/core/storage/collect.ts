import { finishDigest, startDigest } from '../lib/digest.ts';
import { checkBody } from './body.ts';
import type { Body, WriteOptions, Written } from './storage.ts';

/**
 * Reads a whole body into memory, once, and verifies its size and digest. A body that arrives as one chunk is
 * not copied. Throws `body_mismatch`, and the signal's reason if it aborts.
 */
export async function collect(
  name: string,
  body: Body,
  { signal, digest, onBytes }: WriteOptions,
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
      all ??= withStart(only, body.size);
      all.set(chunk, at);
    }
    onBytes?.(chunk.byteLength);
  }
  const read = { size, digest: finishDigest(hash) };
  checkBody(name, read, { size: body.size, digest });
  return { ...read, bytes: all ?? only ?? new Uint8Array() };
}

function withStart(start: Uint8Array | null, size: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(size);
  if (start !== null) bytes.set(start);
  return bytes;
}
