import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { type Digest, digestOf, hexOf } from '../../lib/digest.ts';
import { type Finding, finding, WaybillError } from '../../lib/errors.ts';
import { dateOf, type Instant } from '../../lib/instant.ts';
import { describeFileError } from '../../lib/system-errors.ts';
import { bytesBody, sizeAndDigest } from '../../storage/body.ts';
import { decompress, gzip } from '../archive/gzip.ts';
import { readTar } from '../archive/tar-reader.ts';
import { type TarFile, tarSize, writeTar } from '../archive/tar-writer.ts';
import { needsUpload } from '../complete-bundle.ts';
import {
  contentDigest,
  type Manifest,
  manifestName,
  maxManifestBytes,
  parseManifest,
  signatureName,
} from '../manifest.ts';
import { hasErrors, invalidBundle } from '../source-bundle.ts';

/*
 * Packs a bundle into an archive that can be uploaded or saved.
 */

/**
 * The version of the archive format. Increment this whenever the same bundle would produce different bytes,
 * or else an upload that an older version started would continue with the wrong bytes.
 */
export const archiveForm = 1;

export interface PackedBundle {
  /** The exact bytes of `manifest.json`. */
  manifest: Buffer;
  /** Whether the manifest is new. Otherwise, it was found in the directory and has been checked. */
  isNew: boolean;
  /** The exact bytes of `manifest.json.minisig`; null if the bundle is not signed. */
  signature: Buffer | null;
  name: string | null;
  created: Instant;
  /**
   * The same for bundles with the same manifest and files. The daemon compares it when an `Idempotency-Key`
   * is used again.
   */
  contentDigest: Digest;
  /** The number of files, without the manifest. */
  files: number;
  /** The size of these files together, in bytes. */
  bytes: number;
  /** The size of the uncompressed tar, in bytes. The calls to `onBytes` of `open` add up to this. */
  tarBytes: number;
  warnings: readonly Finding[];
  /**
   * Streams the archive as tar.gz. The bytes are the same each time and on every machine. It starts with the
   * manifest and its signature, followed by the files, sorted by path. Modes and owners are fixed, and all
   * times are `created`. Throws `body_mismatch` if a file has changed since it was measured.
   */
  open(onBytes?: (count: number) => void): AsyncGenerator<Uint8Array>;
  /**
   * Returns an archive for a receiver that is missing only these digests. It has the manifest and the files
   * that the receiver needs.
   */
  partial(missing: ReadonlySet<Digest>): PartOfBundle;
}

/** A file to put in the archive. Its digest has been measured. */
export interface MeasuredTarFile extends TarFile {
  /** The digest in the manifest; null if there is none. */
  declaredDigest: Digest | null;
}

interface PartOfBundle extends Pick<PackedBundle, 'files' | 'bytes' | 'tarBytes' | 'open'> {
  /** The same for archives that have the same files of the same bundle. */
  digest: Digest;
}

/** Returns a bundle with these files, which are listed in archive order. */
export function packedBundle(
  parts: Omit<PackedBundle, keyof Archive | 'partial'> & { files: readonly MeasuredTarFile[] },
): PackedBundle {
  const { files, ...facts } = parts;
  const { manifest, signature, created } = facts;
  const modified = dateOf(created);
  const head = [manifestName, signatureName].flatMap((path, index) => {
    const bytes = [manifest, signature][index] ?? null;
    return bytes === null ? [] : [{ path, body: bytesBody(bytes), digest: digestOf(bytes) }];
  });
  return {
    ...facts,
    ...archiveOf(head, files, modified),
    partial: (missing) => {
      const some = files.filter(({ declaredDigest }) => needsUpload(declaredDigest, missing));
      const digest = digestOf(some.map((file) => `${file.digest} ${file.path}\n`).join(''));
      return { ...archiveOf(head, some, modified), digest };
    },
  };
}

type Archive = Pick<PackedBundle, 'files' | 'bytes' | 'tarBytes' | 'open'>;

function archiveOf(head: readonly TarFile[], listed: readonly TarFile[], modified: Date): Archive {
  const files = [...head, ...listed];
  return {
    files: listed.length,
    bytes: listed.reduce((sum, { body }) => sum + body.size, 0),
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
 * Returns the `Idempotency-Key` for a bundle. Uploading the bundle several times with this key starts only
 * one run. To publish the same bundle again, pass a `salt`.
 */
export function idempotencyKeyOf(contentDigest: Digest, salt?: string): string {
  return `waybill-${hexOf(contentDigest)}${salt === undefined ? '' : `-${salt}`}`;
}

export interface PackedFile {
  contentDigest: Digest;
  /** The size of the archive in bytes. */
  size: number;
  isCompressed: boolean;
  /** Streams the archive, starting at byte `from`. Calls `onBytes` with the size of each chunk. */
  open(onBytes?: (count: number) => void, from?: number): AsyncGenerator<Uint8Array>;
}

/**
 * Finds out which bundle is in a tar or tar.gz. If the manifest has all digests, reading stops after the
 * manifest; otherwise, the whole archive is read. Throws `usage` if the file cannot be read, `invalid_bundle`
 * if the manifest is invalid, or the error for a damaged archive. Anything else is checked by the receiver.
 */
export async function openPackedFile(file: string): Promise<PackedFile> {
  const handle = await open(file).catch((error: unknown) => {
    throw unreadable(file, error);
  });
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw unreadable(file, new Error('it is not a regular file'));
    const { buffer: magic } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    const bytes = (from = 0): AsyncIterable<Uint8Array> =>
      from >= stats.size ? noManifest() : createReadStream(file, { start: from, end: stats.size - 1 });
    return {
      contentDigest: await contentDigestOf(file, bytes()),
      size: stats.size,
      isCompressed: magic[0] === 0x1f && magic[1] === 0x8b,
      async *open(onBytes, from) {
        for await (const chunk of bytes(from)) {
          onBytes?.(chunk.byteLength);
          yield chunk;
        }
      },
    };
  } finally {
    await handle.close();
  }
}

async function contentDigestOf(file: string, bytes: AsyncIterable<Uint8Array>): Promise<Digest> {
  const digests = new Map<string, Digest>();
  let manifest: Manifest | null = null;
  for await (const entry of readTar(decompress(bytes))) {
    const name = entry.name.replace(/^(?:\.\/)+/, '');
    if (entry.type === 'file' && name === manifestName) {
      manifest = await readManifest(file, entry);
      if (manifest.files.every(({ digest }) => digest !== null)) break;
    } else if (entry.type === 'file') digests.set(name, (await sizeAndDigest(entry.read())).digest);
  }
  if (manifest === null)
    throw invalidArchive(file, [
      finding('error', 'manifest_missing', `the archive has no ${manifestName} at its root`, { file }),
    ]);
  const missing = manifest.files.filter(({ path, digest }) => digest === null && !digests.has(path));
  if (missing.length > 0)
    throw invalidArchive(
      file,
      missing.map(({ path }) =>
        finding('error', 'file_missing', 'is listed in the manifest but missing', {
          file: `${file}:${path}`,
        }),
      ),
    );
  return contentDigest(manifest, ({ path }) => digests.get(path) as Digest);
}

async function readManifest(
  file: string,
  entry: { size: number; read(): AsyncGenerator<Buffer> },
): Promise<Manifest> {
  const place = `${file}:${manifestName}`;
  const chunks: Buffer[] = [];
  if (entry.size <= maxManifestBytes) for await (const chunk of entry.read()) chunks.push(chunk);
  else {
    const message = `has ${entry.size} bytes, more than the maximum of ${maxManifestBytes} for a manifest`;
    throw invalidArchive(file, [finding('error', 'manifest_too_large', message, { file: place })]);
  }
  const { manifest, findings } = parseManifest(Buffer.concat(chunks), place);
  if (manifest === null || hasErrors(findings)) throw invalidArchive(file, findings);
  return manifest;
}

function invalidArchive(file: string, findings: Parameters<typeof invalidBundle>[1]): WaybillError {
  return invalidBundle(`"${file}"`, findings);
}

async function* noManifest(): AsyncGenerator<Uint8Array> {
  // Nothing to yield.
}

function unreadable(file: string, error: unknown): WaybillError {
  return new WaybillError('usage', `"${file}" cannot be read: ${describeFileError(error)}`, {
    hint: 'pass a directory, a tar or a tar.gz',
    cause: error,
  });
}
