import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Digest, digestOf } from '../lib/digest.ts';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { RelativePath } from '../lib/paths.ts';
import { type Extraction, tooLarge } from './extract-archive.ts';
import { type Manifest, manifestName } from './manifest.ts';

/** Stores the files of a pipeline's earlier bundles by digest, so that an upload can leave them out. */
export interface BundleContent {
  /**
   * Puts the stored file with this digest at `file`, where nothing may exist yet. Returns its size in bytes
   * once its hash has been verified, or null if the file is not stored or is damaged. Throws the signal's
   * reason, or the system error if the lookup itself fails.
   */
  place(digest: Digest, file: string, signal?: AbortSignal): Promise<number | null>;
  /** Stores these files for later bundles if there is room. They must not be modified from now on. */
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
 * Reports whether an archive has to contain a file when the receiver is missing only the digests in
 * `missing`. The receiver looks stored files up by the digest in the manifest, so a file without one is
 * always sent.
 */
export function needsUpload(declaredDigest: Digest | null, missing: ReadonlySet<Digest>): boolean {
  return declaredDigest === null || missing.has(declaredDigest);
}

/** Copying small files never waits for I/O, so let the event loop run after this many of them. */
const filesPerYield = 64;

/** Throws an `invalid_request` error if the archive's manifest is not the one that the request announced. */
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
 * Adds the files that an archive left out. They come from `content`, and the rules for files in an archive
 * apply to them. Returns a finding for each file that is not stored. Files without a digest in the manifest
 * cannot be looked up, so they stay missing. Throws the same errors as `extractArchive`.
 */
export async function completeBundle(
  extraction: Extraction,
  manifest: Manifest,
  content: BundleContent,
  { directory, maxUploadSize, signal }: { directory: string; maxUploadSize: number; signal: AbortSignal },
): Promise<Finding[]> {
  const findings: Finding[] = [];
  let looked = 0;
  for (const [index, { path: name, digest }] of manifest.files.entries()) {
    if (extraction.files.has(name) || digest === null) continue;
    if ((looked += 1) % filesPerYield === 0) await nextTurn();
    signal.throwIfAborted();
    await extraction.take(name);
    const size = await content.place(digest, path.join(directory, name), signal);
    if (size === null) {
      findings.push(missingFileFinding(name, index));
      continue;
    }
    extraction.files.set(name, { size, digest });
    extraction.bytes += size;
    if (extraction.bytes > maxUploadSize) throw tooLarge('what the bundle holds', maxUploadSize);
  }
  return findings;
}

function missingFileFinding(file: RelativePath, index: number): Finding {
  return finding('error', 'file_missing', 'is neither in the archive nor kept here', {
    file,
    pointer: `/files/${index}`,
  });
}

/**
 * Returns the error for an archive that leaves out files that are not stored, with a finding for each one.
 */
export function filesMissingError(findings: readonly Finding[]): WaybillError {
  return new WaybillError(
    'files_missing',
    `${findings.length} ${findings.length === 1 ? 'file' : 'files'} that the archive leaves out ${findings.length === 1 ? 'is' : 'are'} not kept here, or no longer`,
    { findings: findings, hint: 'send these files, too, or the whole bundle without Waybill-Partial' },
  );
}
