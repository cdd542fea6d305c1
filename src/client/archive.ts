/* An archive to upload, optionally with support for resuming and for partial uploads. */

export interface Upload {
  /** Opens the archive. Called for each try. */
  open: () => AsyncIterable<Uint8Array>;
  /** In bytes; undefined if unknown. */
  size?: number;
  contentType: 'application/gzip' | 'application/x-tar';
  /** The same for equal bundles, so that all tries are one upload. */
  idempotencyKey: string;
  /** For resumable uploads. If absent, resuming opens the archive and skips the bytes that were sent. */
  pieces?: Pieces;
  /** For sending only the files that the daemon does not have. If absent, all files are sent. */
  parts?: Parts;
}

/** Supports sending only part of a bundle. */
export interface Parts {
  /** `manifest.json`, byte for byte. */
  manifest: Uint8Array;
  /** The number of files listed in the manifest. */
  files: number;
  /** The total size of these files. */
  bytes: number;
  /** Returns an archive with the manifest and only the files that a daemon without these digests needs. */
  only: (missing: ReadonlySet<string>) => Upload & { files: number; bytes: number };
}

/** Supports resuming an upload. */
export interface Pieces {
  /**
   * Returns the same value if and only if two archives have the same bytes. If absent, uploads by earlier
   * processes are not resumed.
   */
  fingerprint?: () => Promise<string>;
  /** The number of bytes read to create the archive. Approximates its size if that is unknown. */
  readBytes: number;
  /**
   * Streams the archive from byte `from` on. Calls `onRead` with the increments of progress, in units of
   * `readBytes`.
   */
  open: (from: number, onRead: (bytes: number) => void) => AsyncIterable<Uint8Array>;
  /** Called with the increments of `readBytes` that were sent. Resent bytes are counted once. */
  onSent?: (bytes: number) => void;
}

/** Returns an upload's `pieces`, with a fallback that skips bytes. */
export function piecesOf({ pieces, size, open }: Upload): Pieces {
  return (
    pieces ?? {
      readBytes: size ?? 0,
      open: (from, onRead) => after(counted(open(), onRead), from),
    }
  );
}

/** Skips the first `count` bytes. */
export async function* after(chunks: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let left = count;
  for await (const chunk of chunks) {
    if (chunk.byteLength > left) yield chunk.subarray(left);
    left = Math.max(0, left - chunk.byteLength);
  }
}

async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    onRead(chunk.byteLength);
    yield chunk;
  }
}

/** A part of an archive that is kept in memory until the daemon has received it. */
export interface Chunk {
  /** Offsets in the archive, in bytes. */
  start: number;
  end: number;
  /** Whether the archive ends with this chunk. */
  isLast: boolean;
  bytes: Uint8Array;
  /** How many of the archive's `readBytes` were read before this chunk, and up to its end. */
  readStart: number;
  readEnd: number;
}

/**
 * Reads an archive chunk by chunk. Keeps the latest chunk, so that it can be sent again after a lost
 * connection without packing the archive again.
 */
export interface ArchiveReader {
  /**
   * Returns the chunk that contains the byte at `offset`, or the last chunk if `offset` is the end of the
   * archive. Returns null if the archive is shorter. Throws the errors of opening and reading.
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

  /** Returns the next non-empty piece; null at the end. */
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
