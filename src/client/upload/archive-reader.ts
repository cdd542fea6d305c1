import type { Pieces } from './upload.ts';

/** A part of an archive, kept in memory until the daemon has received it. */
export interface Chunk {
  /** Offsets in the archive, in bytes. */
  start: number;
  end: number;
  /** Whether the archive ends with this chunk. */
  isLast: boolean;
  bytes: Uint8Array;
  /** How much of the archive's `readBytes` was read before this chunk, and including it. */
  readStart: number;
  readEnd: number;
}

/**
 * Reads an archive chunk by chunk. Keeps the latest chunk, so that it can be sent again after a lost
 * connection without packing the archive again.
 */
export interface ArchiveReader {
  /**
   * The chunk with the byte at `offset`, or the last chunk if `offset` is the end of the archive. null if the
   * archive is shorter. Throws the errors of opening and reading.
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

  /** The next non-empty piece; null at the end. */
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
    // Reads ahead, because it must be known whether this chunk is the last one when it is sent.
    rest ??= await pull(from);
    return {
      start,
      end: start + length,
      isLast: rest === null,
      bytes: buffer.subarray(0, length),
      readStart,
      readEnd: read,
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
