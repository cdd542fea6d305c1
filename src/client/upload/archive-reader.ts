import type { Pieces } from './upload.ts';

/** Some bytes of an archive, in memory until they have arrived. */
export interface Chunk {
  /** Places in the archive, in bytes. */
  start: number;
  end: number;
  /** The archive ends with it. */
  isLast: boolean;
  bytes: Uint8Array;
  /** What had been read of the archive's `readBytes` before it, and with it. */
  readStart: number;
  readEnd: number;
}

/**
 * Reads an archive chunk by chunk. The chunk that was read last is kept: what a lost connection swallowed of
 * it is sent again without packing the archive anew.
 */
export interface ArchiveReader {
  /**
   * The chunk in which the byte at `offset` is; at the end of the archive, one without it. Null if the
   * archive is shorter. Throws what opening and reading throw.
   */
  at(offset: number): Promise<Chunk | null>;
  close(): Promise<void>;
}

export function archiveReader({ open }: Pick<Pieces, 'open'>, chunkBytes: number): ArchiveReader {
  const buffer = Buffer.allocUnsafeSlow(chunkBytes);
  let source: AsyncIterator<Uint8Array> | null = null;
  let [read, rest] = [0, null as Uint8Array | null];
  let kept: Chunk | null = null;

  async function close(): Promise<void> {
    const [open, of] = [source, kept];
    [source, rest, kept] = [null, null, null];
    if (open !== null && of?.isLast !== true) await open.return?.();
  }

  /** What comes next and has bytes; null at the end. */
  async function pull(from: AsyncIterator<Uint8Array>): Promise<Uint8Array | null> {
    for (;;) {
      const next = await from.next();
      if (next.done === true) return null;
      if (next.value.byteLength > 0) return next.value;
    }
  }

  async function nextChunk(from: AsyncIterator<Uint8Array>, start: number): Promise<Chunk> {
    const readStart = read;
    let length = 0;
    while (length < chunkBytes) {
      const piece = rest ?? (await pull(from));
      if (piece === null) break;
      const taken = Math.min(piece.byteLength, chunkBytes - length);
      buffer.set(piece.subarray(0, taken), length);
      rest = taken < piece.byteLength ? piece.subarray(taken) : null;
      length += taken;
    }
    // Whether it is the last one has to be known when it is sent.
    rest ??= await pull(from);
    return {
      ...{ start, end: start + length, isLast: rest === null, bytes: buffer.subarray(0, length) },
      ...{ readStart, readEnd: read },
    };
  }

  return {
    async at(offset) {
      if (kept === null || offset < kept.start) {
        await close();
        read = 0;
        source = open(offset, (bytes) => void (read += bytes))[Symbol.asyncIterator]();
        kept = await nextChunk(source, offset);
      }
      while (source !== null && offset >= kept.end && !kept.isLast) kept = await nextChunk(source, kept.end);
      return offset > kept.end ? null : kept;
    },
    close,
  };
}
