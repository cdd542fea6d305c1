import { WaybillError } from '../../lib/errors.ts';

/** Reads a stream of chunks in pieces of the requested sizes. Buffers one chunk. */
export interface ByteSource {
  /** Returns exactly `count` bytes, or fewer if the stream ends. Only for small counts. */
  take(count: number): Promise<Buffer>;
  /** Streams `count` bytes in pieces. Throws `malformed_archive` if the stream ends earlier. */
  slices(count: number): AsyncGenerator<Buffer>;
  /** Skips 1 to `count` bytes and returns how many. Throws `malformed_archive` at the end of the stream. */
  skip(count: number): Promise<number>;
  /** The next bytes, of any length; null at the end. */
  next(): Promise<Buffer | null>;
  close(): Promise<void>;
}

export function byteSource(chunks: AsyncIterable<Uint8Array>): ByteSource {
  const iterator = chunks[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);

  const refill = async (): Promise<boolean> => {
    while (held.byteLength === 0) {
      const step = await iterator.next();
      if (step.done === true) return false;
      held = Buffer.from(step.value.buffer, step.value.byteOffset, step.value.byteLength);
    }
    return true;
  };
  const cut = (count: number): Buffer => {
    const piece = held.subarray(0, count);
    held = held.subarray(count);
    return piece;
  };

  return {
    async take(count) {
      if (held.byteLength >= count) return cut(count);
      const pieces: Buffer[] = [];
      let missing = count;
      while (missing > 0 && (await refill())) {
        const piece = cut(missing);
        pieces.push(piece);
        missing -= piece.byteLength;
      }
      return Buffer.concat(pieces);
    },
    async *slices(count) {
      for (let missing = count; missing > 0;) {
        if (!(await refill())) throw cutShort();
        const piece = cut(missing);
        missing -= piece.byteLength;
        yield piece;
      }
    },
    async skip(count) {
      if (!(await refill())) throw cutShort();
      return cut(count).byteLength;
    },
    next: async () => ((await refill()) ? cut(held.byteLength) : null),
    close: async () => {
      await iterator.return?.();
    },
  };
}

function cutShort(): WaybillError {
  return new WaybillError('malformed_archive', 'the archive is cut short', {
    hint: 'make the archive again and upload it whole',
  });
}
