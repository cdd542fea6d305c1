import { closeSync, fstatSync, read as readCallback } from 'node:fs';
import { promisify } from 'node:util';
import { readIfSmall, reads, smallFileBytes } from './small-files.ts';

const chunkBytes = 1 << 20;
const readAsync = promisify(readCallback);

/**
 * The bytes of the file that `open` opens; it may be called twice. A small file is read at once if reading is
 * fast; of other files the next chunk is read while the current one is used.
 */
export async function* readChunks(open: () => number): AsyncIterable<Uint8Array> {
  const whole = reads.isSlow() ? null : reads.time(() => readIfSmall(open()));
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
      // A regular file returns everything in one read; another one would only confirm the end.
      const isComplete = isFirst && chunk.byteLength < firstBytes;
      if (!isComplete) {
        next = readChunk(source, chunkBytes);
        next.catch(() => undefined); // If the consumer stops early, only the `finally` below awaits it.
      }
      yield chunk;
      if (isComplete) return;
    }
  } finally {
    // Closing the file during a read would let that read return bytes of whichever file is opened next.
    await next.catch(() => undefined);
    closeSync(source);
  }
}

async function readChunk(source: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await readAsync(source, Buffer.allocUnsafeSlow(bytes), 0, bytes, null);
  return buffer.subarray(0, bytesRead);
}
