import type { Digest } from '../lib/digest.ts';

/**
 * Files of earlier bundles of one pipeline, by digest: what an archive that leaves them out is completed
 * from.
 */
export interface BundleContent {
  /**
   * Puts the bytes of the digest at `file`, which must not be there, and resolves with their number once they
   * were read and hashed; null if they are not kept, or not as they were. Throws the system's error where
   * that cannot be said now, and the reason of `signal`.
   */
  place(digest: Digest, file: string, signal?: AbortSignal): Promise<number | null>;
  /** Keeps these files for later bundles, as far as there is room. They must never be written to again. */
  keep(files: Iterable<KeptFile>): Promise<void>;
}

export interface KeptFile {
  digest: Digest;
  /** Bytes. */
  size: number;
  /** Absolute. */
  file: string;
}

/**
 * Whether an archive must contain a file, for a receiver that lacks only the digests in `missing`. The
 * receiver finds kept files by the digest in the manifest, so a file without a declared digest is always
 * sent. Pure.
 */
export function mustBeSent(declaredDigest: Digest | null, missing: ReadonlySet<Digest>): boolean {
  return declaredDigest === null || missing.has(declaredDigest);
}
