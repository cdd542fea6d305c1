import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Digest, digestOf } from '../lib/digest.ts';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { RelativePath } from '../lib/paths.ts';
import { type Extraction, tooLarge } from './extract-archive.ts';
import { type Manifest, manifestName } from './manifest.ts';

/** Files of a pipeline's earlier bundles, by digest. They complete an archive that leaves them out. */
export interface BundleContent {
  /**
   * Places the kept file with this digest at `file`, which must not exist. Returns its size in bytes after
   * verifying its hash, or null if the file is not kept or is damaged. Throws the system error if the lookup
   * fails, or the signal's reason.
   */
  place(digest: Digest, file: string, signal?: AbortSignal): Promise<number | null>;
  /** Keeps these files for later bundles if there is room. They must never be written to again. */
  keep(files: Iterable<CachedFile>): Promise<void>;
}

export interface CachedFile {
  digest: Digest;
  /** The size in bytes. */
  size: number;
  /** An absolute path. */
  file: string;
}

/**
 * Returns true if an archive must contain a file, given that the receiver lacks only the digests in
 * `missing`. The receiver finds kept files by the digest in the manifest, so a file without a declared digest
 * is always sent.
 */
export function mustBeSent(declaredDigest: Digest | null, missing: ReadonlySet<Digest>): boolean {
  return declaredDigest === null || missing.has(declaredDigest);
}

/** Placing small files never waits for I/O. After this many files, it yields to the event loop. */
const filesPerYield = 64;

/** Throws `invalid_request` if the archive's manifest is not the one named in the request. */
export function checkPartialManifest(bytes: Uint8Array, named: Digest): void {
  const found = digestOf(bytes);
  if (found === named) return;
  throw new WaybillError(
    'invalid_request',
    `the ${manifestName} of the archive is ${found}, and Waybill-Partial names ${named}`,
    { hint: `name the SHA-256 of the ${manifestName} that the archive holds, byte for byte` },
  );
}

/**
 * Adds the files that an archive left out, taking them from `content` and applying the rules for archives.
 * Returns a finding for each file that is not kept. Files without a digest in the manifest cannot be looked
 * up and stay missing. Throws the same errors as `extractArchive`.
 */
export async function completeBundle(
  extraction: Extraction,
  manifest: Manifest,
  content: BundleContent,
  { directory, maxUploadSize, signal }: { directory: string; maxUploadSize: number; signal: AbortSignal },
): Promise<Finding[]> {
  const lacking: Finding[] = [];
  let looked = 0;
  for (const [index, { path: name, digest }] of manifest.files.entries()) {
    if (extraction.files.has(name) || digest === null) continue;
    if ((looked += 1) % filesPerYield === 0) await nextTurn();
    signal.throwIfAborted();
    await extraction.take(name);
    const size = await content.place(digest, path.join(directory, name), signal);
    if (size === null) {
      lacking.push(notKept(name, index));
      continue;
    }
    extraction.files.set(name, { size, digest });
    extraction.bytes += size;
    if (extraction.bytes > maxUploadSize) throw tooLarge('what the bundle holds', maxUploadSize);
  }
  return lacking;
}

function notKept(file: RelativePath, index: number): Finding {
  return finding('error', 'file_missing', 'is neither in the archive nor kept here', {
    file,
    pointer: `/files/${index}`,
  });
}

/**
 * Returns the error for a partial archive that left out files that are not kept, with one finding per file.
 */
export function filesMissing(lacking: readonly Finding[]): WaybillError {
  return new WaybillError(
    'files_missing',
    `${lacking.length} ${lacking.length === 1 ? 'file' : 'files'} that the archive leaves out ${lacking.length === 1 ? 'is' : 'are'} not kept here, or not any more`,
    { findings: lacking, hint: 'send these files, too, or the whole bundle without Waybill-Partial' },
  );
}
