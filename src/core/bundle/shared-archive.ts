import { randomUUID } from 'node:crypto';
import { type Digest, finishDigest, startDigest } from '../lib/digest.ts';
import { WaybillError } from '../lib/errors.ts';
import { dateOf } from '../lib/instant.ts';
import { checkBody } from '../storage/body.ts';
import { type Key, listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { type TarFile, tarSize, writeTar } from './archive/tar-writer.ts';
import { manifestName, signatureName } from './manifest.ts';
import type { BundleFile } from './source-bundle.ts';
import { openStagedBundle, type StagedBundle, stageUpload } from './staging.ts';
import type { SceneMapRules } from './validate-bundle.ts';

/*
 * Transfers a staged bundle from the receiving host to the publishing host as one plain tar in shared
 * staging, with the manifest, its signature and the listed files. The tar is not compressed, because
 * compressible bundles arrive compressed and have already been expanded once, and hosts with shared storage
 * have a fast network.
 */

/** The facts against which a host checks a fetched archive. */
export interface SharedArchive {
  name: string;
  size: number;
  digest: Digest;
}

const archiveName = /^upload-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tar$/;

/** Returns a name that no other archive in shared staging has. */
export function newArchiveName(): string {
  return `upload-${randomUUID()}.tar`;
}

/** Returns true if `newArchiveName` could have generated this name. */
export function isArchiveName(name: unknown): name is string {
  return typeof name === 'string' && archiveName.test(name);
}

/**
 * Returns the key of an archive. Names come from Redis, to which other programs may write, and an arbitrary
 * name could lead to any file. Throws `bundle_not_found` for a name that `newArchiveName` cannot have
 * generated.
 */
function archiveKey(name: unknown): Key {
  if (isArchiveName(name)) return listedKey(name);
  throw new WaybillError('bundle_not_found', `the job names ${JSON.stringify(name)} as its staged bundle`, {
    hint: 'another program has changed the content of Redis: find out which, then upload the bundle again',
  });
}

/**
 * Writes the bundle that `stageUpload` staged in `directory` as the archive `name`. Compares every file with
 * the facts measured on receipt.
 */
export async function storeStagedBundle(
  storage: Storage,
  name: string,
  staged: { directory: string; pipelineId: string; bundlePath: string; description?: Digest | undefined },
): Promise<SharedArchive> {
  const { directory, pipelineId, bundlePath, description } = staged;
  const bundle = await openStagedBundle(directory, pipelineId, bundlePath, description);
  const { manifestFile, signatureFile = null } = bundle;
  const files: TarFile[] = [
    { path: manifestName, ...manifestFile },
    ...(signatureFile === null ? [] : [{ path: signatureName, ...signatureFile }]),
    ...bundle.files.map(tarFile),
  ];
  const modifiedAt = dateOf(bundle.created);
  const body = { size: tarSize(files, modifiedAt), open: () => writeTar(files, modifiedAt) };
  const { size, digest } = await storage.write(archiveKey(name), body, { mode: 'replace' });
  return { name, size, digest };
}

export interface FetchRequest {
  storage: Storage;
  archive: SharedArchive;
  /** An absolute path. Created if it is missing, and removed after a failure. */
  directory: string;
  sceneMaps: SceneMapRules;
  signal: AbortSignal;
}

/**
 * Fetches an archive and stages it like an upload to this host, with all checks for archives and bundles.
 * Throws `bundle_not_found` if the archive is missing, and `body_mismatch` if its bytes have changed.
 */
export async function fetchStagedBundle(request: FetchRequest): Promise<StagedBundle> {
  const { storage, archive, directory, sceneMaps, signal } = request;
  const whole = checkedBytes(storage, archive);
  try {
    return await stageUpload({
      input: whole,
      directory,
      // The receiver has already applied the limits. A tar is slightly larger than its files.
      limits: { maxUploadSize: archive.size, maxFiles: Number.MAX_SAFE_INTEGER },
      signal,
      sceneMaps,
    });
  } catch (error) {
    if (error instanceof WaybillError && error.code === 'storage_not_found')
      throw new WaybillError('bundle_not_found', 'the staged bundle is not in shared staging any more', {
        cause: error,
        hint: 'upload it again',
      });
    throw error;
  }
}

/** Yields the bytes, and verifies at the end that they are the ones that were written. */
async function* checkedBytes(
  storage: Storage,
  { name, ...expected }: SharedArchive,
): AsyncGenerator<Uint8Array> {
  const hash = startDigest();
  let size = 0;
  for await (const chunk of storage.read(archiveKey(name))) {
    hash.update(chunk);
    size += chunk.byteLength;
    if (size > expected.size) break;
    yield chunk;
  }
  checkBody(name, { size, digest: finishDigest(hash) }, expected);
}

function tarFile({ path, digest, body }: BundleFile): TarFile {
  // `stageUpload` has measured every file.
  if (digest === null) throw new WaybillError('internal_error', `"${path}" was staged without a digest`);
  return { path, digest, body };
}
