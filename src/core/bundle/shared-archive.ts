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
import { openStagedBundle, type StagedBundle, stageUpload } from './stage-upload.ts';
import type { SceneMapRules } from './validate-bundle.ts';

/*
 * Moves a staged bundle from the host that received it to the host that publishes it. The bundle is stored as
 * a tar in shared staging, with the manifest, its signature and the listed files. The tar is not compressed:
 * bundles that compress well were compressed when they arrived, and hosts with shared storage have a fast
 * network.
 */

/** Identifies an archive, and lets another host check what it fetched. */
interface SharedArchive {
  name: string;
  size: number;
  digest: Digest;
}

const archiveName = /^upload-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tar$/;

/** Returns a name for a new archive that is unique in shared staging. */
export function newArchiveName(): string {
  return `upload-${randomUUID()}.tar`;
}

/** Reports whether the name looks like one from `newArchiveName`. */
export function isArchiveName(name: unknown): name is string {
  return typeof name === 'string' && archiveName.test(name);
}

/**
 * Returns the key of an archive. Names come from Redis, where other programs may be able to write, and a
 * made-up name could refer to any file. Throws `bundle_not_found` if `newArchiveName` could not have
 * generated the name.
 */
function archiveKey(name: unknown): Key {
  if (isArchiveName(name)) return listedKey(name);
  throw new WaybillError('bundle_not_found', `the job names ${JSON.stringify(name)} as its staged bundle`, {
    hint: 'another program has changed the content of Redis: find out which, then upload the bundle again',
  });
}

/**
 * Writes the bundle that `stageUpload` left in `directory` to the archive `name`. While doing so, makes sure
 * that every file is still as it was received.
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

interface FetchRequest {
  storage: Storage;
  archive: SharedArchive;
  /** An absolute path. It is created if necessary, and removed after a failure. */
  directory: string;
  sceneMaps: SceneMapRules;
  signal: AbortSignal;
}

/**
 * Fetches an archive and stages it with the same checks as an upload to this host. Throws `bundle_not_found`
 * if the archive is gone, and `body_mismatch` if its bytes have changed.
 */
export async function fetchStagedBundle(request: FetchRequest): Promise<StagedBundle> {
  const { storage, archive, directory, sceneMaps, signal } = request;
  const whole = checkedBytes(storage, archive);
  try {
    return await stageUpload({
      input: whole,
      directory,
      // The receiver has already enforced the limits. A tar is slightly larger than the files in it.
      limits: { maxUploadSize: archive.size, maxFiles: Number.MAX_SAFE_INTEGER },
      signal,
      sceneMaps,
    });
  } catch (error) {
    if (error instanceof WaybillError && error.code === 'storage_not_found')
      throw new WaybillError('bundle_not_found', 'the staged bundle is no longer in shared staging', {
        cause: error,
        hint: 'upload it again',
      });
    throw error;
  }
}

/** Yields the bytes of an archive. At the end, throws if they are not the ones that were stored. */
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
  // `stageUpload` computes the digest of every file.
  if (digest === null) throw new WaybillError('internal_error', `"${path}" was staged without a digest`);
  return { path, digest, body };
}
