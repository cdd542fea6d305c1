/*
 * An archive to upload, with optional abilities for resuming and for sending only a part.
 */

export interface Upload {
  /** Called for each try. */
  open: () => AsyncIterable<Uint8Array>;
  /** In bytes; undefined if unknown. */
  size?: number;
  contentType: 'application/gzip' | 'application/x-tar';
  /** Equal for equal bundles, so that all tries are one upload. */
  idempotencyKey: string;
  /** For resumable uploads. Without it, resuming opens the archive and skips the bytes that were sent. */
  pieces?: Pieces;
  /** For sending only the files that the daemon does not have. Without it, all files are sent. */
  parts?: Parts;
}

/** Allows sending only a part of a bundle. */
export interface Parts {
  /** `manifest.json`, byte for byte. */
  manifest: Uint8Array;
  /** The number of files that it lists. */
  files: number;
  /** The total size of these files. */
  bytes: number;
  /** The archive with the manifest and only the files that a daemon without these digests needs. */
  only: (missing: ReadonlySet<string>) => Upload & { files: number; bytes: number };
}

/** Allows resuming an upload. */
export interface Pieces {
  /**
   * Equal exactly for archives with the same bytes. Without it, uploads of earlier processes are not resumed.
   */
  fingerprint?: () => Promise<string>;
  /** The number of bytes read to create the archive. Approximates its size if that is unknown. */
  readBytes: number;
  /**
   * Streams the archive from byte `from` on. Calls `onRead` with increments of the progress in `readBytes`.
   */
  open: (from: number, onRead: (bytes: number) => void) => AsyncIterable<Uint8Array>;
  /** Called with increments of the sent part of `readBytes`. Resent bytes count once. */
  onSent?: (bytes: number) => void;
}

/** The `pieces` of an upload, with a fallback that skips bytes. */
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
