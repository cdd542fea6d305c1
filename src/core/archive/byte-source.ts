import { WaybillError } from '../errors.ts';

/** A stream of chunks, taken in the pieces that its reader wants. Holds one chunk at a time. */
export interface ByteSource {
  /** Exactly this many bytes; fewer only if the stream ends. For small counts: the bytes are in memory. */
  take(count: number): Promise<Buffer>;
  /** This many bytes in pieces as they come. Throws `malformed_archive` if the stream ends before. */
  slices(count: number): AsyncGenerator<Buffer>;
  /**
   * Skips at least one and up to this many bytes and returns how many. Throws `malformed_archive` if the
   * stream ends before.
   */
  skip(count: number): Promise<number>;
  /** What comes next, in whatever length; null at the end. */
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
