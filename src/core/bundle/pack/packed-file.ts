import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { decompress } from '../archive/decompress.ts';
import { readTar } from '../archive/tar-reader.ts';
import { hasErrors, invalidBundle } from '../invalid-bundle.ts';
import { contentDigest, manifestName, maxManifestBytes, parseManifest, type Manifest } from '../manifest.ts';
import type { Digest } from '../../lib/digest.ts';
import { WaybillError, finding } from '../../lib/errors.ts';
import { measure } from '../../storage/body.ts';

/** An existing archive file. */
export interface PackedFile {
  contentDigest: Digest;
  /** Bytes of the file. */
  size: number;
  isCompressed: boolean;
  /** Streams the file from byte `from` on. Calls `onBytes` with the size of each chunk. */
  open(onBytes?: (count: number) => void, from?: number): AsyncGenerator<Uint8Array>;
}

/**
 * Identifies the bundle in a tar or tar.gz. Reads up to the manifest if that declares every digest, and
 * otherwise the whole file. Throws `usage` if the file cannot be read, `invalid_bundle` if the manifest is
 * invalid, and the errors of damaged archives. All other checks are up to the receiver.
 */
export async function packedFile(file: string): Promise<PackedFile> {
  const handle = await open(file).catch((error: unknown) => {
    throw unreadable(file, error);
  });
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw unreadable(file, new Error('it is not a regular file'));
    const { buffer: magic } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    const bytes = (from = 0): AsyncIterable<Uint8Array> =>
      from >= stats.size ? nothing() : createReadStream(file, { start: from, end: stats.size - 1 });
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
    } else if (entry.type === 'file') digests.set(name, (await measure(entry.read())).digest);
  }
  if (manifest === null)
    throw refused(file, [
      finding('error', 'manifest_missing', `the archive has no ${manifestName} at its root`, { file }),
    ]);
  const missing = manifest.files.filter(({ path, digest }) => digest === null && !digests.has(path));
  if (missing.length > 0)
    throw refused(
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
    throw refused(file, [finding('error', 'manifest_too_large', message, { file: place })]);
  }
  const { manifest, findings } = parseManifest(Buffer.concat(chunks), place);
  if (manifest === null || hasErrors(findings)) throw refused(file, findings);
  return manifest;
}

function refused(file: string, findings: Parameters<typeof invalidBundle>[1]): WaybillError {
  return invalidBundle(`"${file}"`, findings);
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // Yields nothing.
}

function unreadable(file: string, error: unknown): WaybillError {
  const reason = error instanceof Error ? error.message : String(error);
  return new WaybillError('usage', `"${file}" cannot be read: ${reason}`, {
    hint: 'pass a directory, a tar or a tar.gz',
    cause: error,
  });
}
