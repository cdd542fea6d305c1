import { finishDigest, startDigest } from '../digest.ts';
import { checkBody } from './body.ts';
import type { Body, WriteOptions, Written } from './storage.ts';

/**
 * Reads a whole body into memory and verifies its size and digest. A body that arrives as one chunk is not
 * copied. Throws `body_mismatch`, and the signal's reason if it aborts.
 */
export async function collect(
  name: string,
  body: Body,
  { signal, digest, onBytes }: WriteOptions,
): Promise<{ bytes: Uint8Array } & Pick<Written, 'size' | 'digest'>> {
  const hash = startDigest();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body.open()) {
    signal?.throwIfAborted();
    size += chunk.byteLength;
    if (size > body.size) break;
    hash.update(chunk);
    chunks.push(chunk);
    onBytes?.(chunk.byteLength);
  }
  const read = { size, digest: finishDigest(hash) };
  checkBody(name, read, { size: body.size, digest });
  const [only] = chunks;
  return { ...read, bytes: chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks) };
}
