import { gzip } from '../archive/gzip.ts';
import { tarSize, writeTar, type TarFile } from '../archive/tar-writer.ts';
import { mustBeSent } from '../bundle-content.ts';
import { digestOf, hexOf, type Digest } from '../../lib/digest.ts';
import type { Finding } from '../../lib/errors.ts';
import { dateOf, type Instant } from '../../lib/instant.ts';

/*
 * A bundle as an archive that can be sent or written to a file.
 */

/**
 * The version of the archive bytes. Raise it whenever the same bundle gives different bytes: otherwise an
 * upload that an older version started would be resumed with the wrong bytes.
 */
export const archiveForm = 1;

export interface PackedBundle {
  /** `manifest.json`, byte for byte. */
  manifest: Buffer;
  /** Whether the manifest is new, as opposed to found and checked. */
  isNew: boolean;
  name: string | null;
  created: Instant;
  /** Equal for bundles with equal manifests and files. The daemon compares it for an `Idempotency-Key`. */
  contentDigest: Digest;
  /** The number of files without the manifest. */
  files: number;
  /** The total size of these files. */
  bytes: number;
  /** The size of the tar inside the archive, which is the sum of `onBytes` calls of `open`. */
  tarBytes: number;
  warnings: readonly Finding[];
  /**
   * Streams the archive as tar.gz, with the same bytes each time and on every machine: the manifest first,
   * then the files by path, with fixed modes and owners and the time of `created`. Throws `body_mismatch` if
   * a file changed since it was measured.
   */
  open(onBytes?: (count: number) => void): AsyncGenerator<Uint8Array>;
  /** The archive with the manifest and only the files that a receiver without these digests needs. */
  only(missing: ReadonlySet<Digest>): PartOfBundle;
}

/** A file of the archive with its measured digest. */
export interface MeasuredTarFile extends TarFile {
  /** null if the manifest does not declare it. */
  declaredDigest: Digest | null;
}

export interface PartOfBundle extends Pick<PackedBundle, 'files' | 'bytes' | 'tarBytes' | 'open'> {
  /** Equal for archives with the same files of one bundle. */
  digest: Digest;
}

/** Builds a bundle from measured files. `files` must begin with the manifest. */
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
 * The `Idempotency-Key` of a bundle. Sent with every try, it makes all of them one run. Pass a `salt` to
 * publish a bundle again that was sent before. Pure.
 */
export function idempotencyKeyOf(contentDigest: Digest, salt?: string): string {
  return `waybill-${hexOf(contentDigest)}${salt === undefined ? '' : `-${salt}`}`;
}
