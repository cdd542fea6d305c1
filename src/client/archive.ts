/* An archive to upload. It may support resuming an upload, and sending only part of the files. */

export interface Upload {
  /** Opens the archive. Called again for every attempt. */
  open: () => AsyncIterable<Uint8Array>;
  /** The size in bytes. undefined if it is not known. */
  size?: number;
  contentType: 'application/gzip' | 'application/x-tar';
  /** The same for identical bundles, so that repeated attempts count as a single upload. */
  idempotencyKey: string;
  /**
   * For resumable uploads. Without it, resuming means opening the archive again and skipping what has been
   * sent.
   */
  pieces?: Pieces;
  /** For sending only the files that the daemon does not have. Without it, all files are sent. */
  parts?: Parts;
}

/** Lets the client send only the files that the daemon does not have. */
export interface Parts {
  /** The exact bytes of `manifest.json`. */
  manifest: Uint8Array;
  files: number;
  /** The total size of those files. */
  bytes: number;
  /**
   * Creates an archive that contains the manifest, but only those files whose digests are missing on the
   * daemon.
   */
  only: (missing: ReadonlySet<string>) => Upload & { files: number; bytes: number };
}

/** Lets the client resume an interrupted upload. */
export interface Pieces {
  /**
   * Returns a value that is the same for two archives if and only if they have the same bytes. Without it, an
   * upload can only be resumed by the process that started it.
   */
  fingerprint?: () => Promise<string>;
  /**
   * The number of bytes read to create the archive. It is roughly the archive's size, in case that is not
   * known.
   */
  readBytes: number;
  /**
   * Reads the archive, starting at byte `from`. To report progress, calls `onRead` with the number of bytes
   * read since the last call. They add up to `readBytes`.
   */
  open: (from: number, onRead: (bytes: number) => void) => AsyncIterable<Uint8Array>;
  /**
   * Called with the number of bytes sent since the last call, out of `readBytes`. Bytes that are sent again
   * do not count.
   */
  onSent?: (bytes: number) => void;
}

/** Returns the upload's `pieces`. If it has none, resuming opens the archive and skips bytes. */
export function resumableSource({ pieces, size, open }: Upload): Pieces {
  return (
    pieces ?? {
      readBytes: size ?? 0,
      open: (from, onRead) => skip(counted(open(), onRead), from),
    }
  );
}

/** Skips the first `count` bytes. */
export async function* skip(chunks: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let toSkip = count;
  for await (const chunk of chunks) {
    if (chunk.byteLength > toSkip) yield chunk.subarray(toSkip);
    toSkip = Math.max(0, toSkip - chunk.byteLength);
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

/** A part of an archive. It stays in memory until the daemon has received it. */
export interface Chunk {
  /** Offsets in the archive, in bytes. */
  start: number;
  end: number;
  /** True if the archive ends here. */
  isLast: boolean;
  bytes: Uint8Array;
  /** How many of the archive's `readBytes` had been read at the start of this chunk, and at its end. */
  readStart: number;
  readEnd: number;
}

/**
 * Reads an archive in chunks. It remembers the latest one, so that it can be sent again if the connection
 * breaks, without creating the archive a second time.
 */
export interface ArchiveReader {
  /**
   * Returns the chunk that contains the byte at `offset`. If that is the end of the archive, returns the last
   * chunk. Returns null if the archive is not that long. Throws the errors of opening and reading the
   * archive.
   */
  at(offset: number): Promise<Chunk | null>;
  close(): Promise<void>;
}

export function archiveReader({ open }: Pick<Pieces, 'open'>, chunkBytes: number): ArchiveReader {
  const buffer = Buffer.allocUnsafeSlow(chunkBytes);
  let source: AsyncIterator<Uint8Array> | null = null;
  let read = 0;
  let rest = null as Uint8Array | null;
  let lastChunk: Chunk | null = null;

  async function close(): Promise<void> {
    const open = source;
    const of = lastChunk;
    [source, rest, lastChunk] = [null, null, null];
    if (open !== null && of?.isLast !== true) await open.return?.();
  }

  async function nextChunk(from: AsyncIterator<Uint8Array>, start: number): Promise<Chunk> {
    const readStart = read;
    let length = 0;
    while (length < chunkBytes) {
      const piece = rest ?? (await nextPiece(from));
      if (piece === null) break;
      const usedBytes = Math.min(piece.byteLength, chunkBytes - length);
      buffer.set(piece.subarray(0, usedBytes), length);
      rest = usedBytes < piece.byteLength ? piece.subarray(usedBytes) : null;
      length += usedBytes;
    }
    // Read one piece more, so that we know whether this chunk is the last one.
    rest ??= await nextPiece(from);
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
      if (lastChunk === null || offset < lastChunk.start) {
        await close();
        read = 0;
        source = open(offset, (bytes) => void (read += bytes))[Symbol.asyncIterator]();
        lastChunk = await nextChunk(source, offset);
      }
      while (source !== null && offset >= lastChunk.end && !lastChunk.isLast)
        lastChunk = await nextChunk(source, lastChunk.end);
      return offset > lastChunk.end ? null : lastChunk;
    },
    close,
  };
}

/** Returns the next piece that is not empty, or null at the end. */
async function nextPiece(from: AsyncIterator<Uint8Array>): Promise<Uint8Array | null> {
  for (;;) {
    const next = await from.next();
    if (next.done === true) return null;
    if (next.value.byteLength > 0) return next.value;
  }
}
