import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/**
 * Pipes bytes through a Node.js transform with back-pressure. If either side fails, the iteration throws its
 * error and both sides are closed.
 */
export async function* pipeThrough(
  input: AsyncIterable<Uint8Array>,
  transform: Duplex,
): AsyncGenerator<Buffer> {
  const feeding = pipeline(input, transform);
  feeding.catch(() => undefined); // Thrown below, or by the iteration itself.
  for await (const chunk of transform) yield chunk as Buffer;
  await feeding;
}
