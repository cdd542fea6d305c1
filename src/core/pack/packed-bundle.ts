import { gzip } from '../archive/gzip.ts';
import { tarSize, writeTar, type TarFile } from '../archive/tar-writer.ts';
import { mustBeSent } from '../bundle/bundle-content.ts';
import { digestOf, hexOf, type Digest } from '../digest.ts';
import type { Finding } from '../finding.ts';
import { dateOf, type Instant } from '../instant.ts';

/**
 * Of the bytes of archives: raise it whenever the same bundle makes others, or an upload that another version
 * has begun is gone on with in the middle.
 */
export const archiveForm = 1;

/** A bundle that is ready to be sent, or written to a file. */
export interface PackedBundle {
  /** `manifest.json`, byte for byte. */
  manifest: Buffer;
  /** Whether it was made, or found and checked. */
  isNew: boolean;
  name: string | null;
  created: Instant;
  /** Equal for bundles that say and hold the same: what the daemon holds an `Idempotency-Key` against. */
  contentDigest: Digest;
  /** How many, beside the manifest, and their bytes. */
  files: number;
  bytes: number;
  /** Bytes of the tar inside the archive, which `onBytes` of `open` adds up to. */
  tarBytes: number;
  warnings: readonly Finding[];
  /**
   * The archive as tar.gz, the same bytes each time and on every machine: the manifest first, then the files
   * by path, with fixed modes and owners, and the time of `created`. Streamed. Throws `body_mismatch` if a
   * file is no longer what was measured.
   */
  open(onBytes?: (count: number) => void): AsyncGenerator<Uint8Array>;
  /** The archive with the manifest and the files that a receiver needs if it lacks only these digests. */
  only(missing: ReadonlySet<Digest>): PartOfBundle;
}

/** A file of the archive, with the digest that was measured. */
export interface MeasuredTarFile extends TarFile {
  /** null if the manifest does not declare it. */
  declaredDigest: Digest | null;
}

export interface PartOfBundle extends Pick<PackedBundle, 'files' | 'bytes' | 'tarBytes' | 'open'> {
  /** Equal for archives of the very same bytes of one bundle. */
  digest: Digest;
}

/** Puts together what was measured; `files` begin with the manifest. */
export function packedBundle(
  parts: Omit<PackedBundle, keyof Archive | 'only'> & { files: readonly MeasuredTarFile[] },
): PackedBundle {
  const { files, ...facts } = parts;
  const modified = dateOf(facts.created);
  return {
    ...facts,
    ...archiveOf(files, modified),
    only: (missing) => {
      const [manifest, ...listed] = files as [MeasuredTarFile, ...MeasuredTarFile[]];
      const some = listed.filter(({ declaredDigest }) => mustBeSent(declaredDigest, missing));
      const digest = digestOf(some.map((file) => `${file.digest} ${file.path}\n`).join(''));
      return { ...archiveOf([manifest, ...some], modified), digest };
    },
  };
}

type Archive = Pick<PackedBundle, 'files' | 'bytes' | 'tarBytes' | 'open'>;

function archiveOf(files: readonly TarFile[], modified: Date): Archive {
  return {
    files: files.length - 1,
    bytes: files.slice(1).reduce((sum, { body }) => sum + body.size, 0),
    tarBytes: tarSize(files, modified),
    open: (onBytes) => gzip(counted(writeTar(files, modified), onBytes)),
  };
}

async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  onBytes: ((count: number) => void) | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    onBytes?.(chunk.byteLength);
    yield chunk;
  }
}

/**
 * The `Idempotency-Key` of a bundle: sent with every try, it makes all of them one run. `salt` makes it a
 * key of its own, for a bundle that was sent before and is meant to be published once more. Pure.
 */
export function idempotencyKeyOf(contentDigest: Digest, salt?: string): string {
  return `waybill-${hexOf(contentDigest)}${salt === undefined ? '' : `-${salt}`}`;
}
