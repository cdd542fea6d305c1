/** An archive to upload, opened anew for each try. */
export interface Upload {
  open: () => AsyncIterable<Uint8Array>;
  /** In bytes, if it is known. */
  size?: number;
  contentType: 'application/gzip' | 'application/x-tar';
  /** The same for the same bundle, so that all tries are one upload. */
  idempotencyKey: string;
  /** For an upload in several requests. Without it the archive is opened and skipped where one goes on. */
  pieces?: Pieces;
  /** For sending only what the daemon does not have. Without it the archive is always sent whole. */
  parts?: Parts;
}

/** What sending a part of a bundle takes. */
export interface Parts {
  /** `manifest.json`, byte for byte. */
  manifest: Uint8Array;
  /** Files that it lists, and their bytes. */
  files: number;
  bytes: number;
  /** The archive with the manifest and the files to send if the daemon lacks only these digests. */
  only: (missing: ReadonlySet<string>) => Upload & { files: number; bytes: number };
}

/** What an upload in several requests has use for. */
export interface Pieces {
  /**
   * Equal for archives of the very same bytes, and for no others. Without it an upload that an earlier
   * process began is not gone on with.
   */
  fingerprint?: () => Promise<string>;
  /** What is read to make the archive, in bytes: about its size, where that is not known. */
  readBytes: number;
  /** The archive from byte `from` on; `onRead` adds up to what was read of `readBytes` until then. */
  open: (from: number, onRead: (bytes: number) => void) => AsyncIterable<Uint8Array>;
  /** Gets what has been sent, as a part of `readBytes`: a byte that is sent twice counts once. */
  onSent?: (bytes: number) => void;
}

/** What `pieces` of an upload are, also where it has none. */
export function piecesOf({ pieces, size, open }: Upload): Pieces {
  return (
    pieces ?? {
      readBytes: size ?? 0,
      open: (from, onRead) => after(counted(open(), onRead), from),
    }
  );
}

/** Everything after the first `count` bytes. */
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
