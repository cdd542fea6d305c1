import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Digest, digestOf } from '../lib/digest.ts';
import { blockingDisk, type Disk } from '../lib/disk.ts';
import { asWaybillError, type Finding, finding, WaybillError } from '../lib/errors.ts';
import { neverYield, type YieldToEventLoop } from '../lib/event-loop.ts';
import { abortable } from '../lib/on-abort.ts';
import { inParallel } from '../lib/parallel.ts';
import type { RelativePath } from '../lib/paths.ts';
import { errnoOf } from '../lib/system-errors.ts';
import type { SignaturePolicy } from '../signing/trusted-keys.ts';
import { bytesBody, storedBody } from '../storage/body.ts';
import { keyOf } from '../storage/key.ts';
import { localStorage } from '../storage/local/local-storage.ts';
import type { Storage } from '../storage/storage.ts';
import {
  type BundleContent,
  type CachedFile,
  checkPartialManifest,
  completeBundle,
  filesMissingError,
} from './complete-bundle.ts';
import { type ArchiveLimits, extractArchive, type Extraction } from './extract-archive.ts';
import { unlistedWarning } from './listed-files.ts';
import {
  contentDigest,
  type Manifest,
  manifestDigest,
  manifestName,
  parseManifest,
  signatureName,
  uploadBundlePath,
} from './manifest.ts';
import { checkSignature } from './signed-bundle.ts';
import { type BundleFile, hasErrors, invalidBundle, revisionOf, type SourceBundle } from './source-bundle.ts';
import {
  checkAgainstDescription,
  descriptionName,
  descriptionText,
  type FileFacts,
  readDescription,
  readStagedFile,
  stagedFilesLost,
} from './staged-description.ts';
import {
  checkSceneMapFile,
  defaultSceneMapRules,
  type SceneMapRules,
  wrongDigest,
  wrongSize,
} from './validate-bundle.ts';

/*
 * Stages uploads. A staged bundle is a directory with the archive's contents in `files`, and a description in
 * `staged.json`. The description lists the sizes and digests of all files, including the manifest and
 * signature, as measured on receipt. Publications use these digests instead of hashing the files again. The
 * job contains the digest of the description.
 */
const filesName = 'files';
const maxConcurrentSceneMaps = 4;

export interface StageRequest {
  /** tar or tar.gz. */
  input: AsyncIterable<Uint8Array>;
  /** An absolute path. It is created if necessary, and removed after any failure. */
  directory: string;
  limits: ArchiveLimits;
  signal: AbortSignal;
  sceneMaps?: SceneMapRules;
  /** Which signature the bundle needs; default: none. */
  signatures?: SignaturePolicy | null;
  /**
   * The digest of `manifest.json`, byte for byte, if the archive may leave out files that are already stored.
   * null if it has to be complete.
   */
  partial?: Digest | null;
  /**
   * Generates a manifest from the extracted files in `directory`, if the archive has none. By default, an
   * archive without a manifest is refused.
   */
  makeManifest?: ((extraction: Extraction, directory: string) => Promise<Buffer>) | undefined;
  /**
   * The store that supplies the files left out of the archive, and that this bundle's files are added to.
   */
  content?: BundleContent;
  /** Called between steps to let the event loop run. Default: never. */
  yieldToEventLoop?: YieldToEventLoop;
  /** The disk that `directory` is on. By default, disk access blocks the event loop. */
  disk?: Disk;
}

export interface StagedBundle {
  directory: string;
  manifest: Manifest;
  /** The digest of the normalized manifest, with measured digests filled in. */
  contentDigest: Digest;
  /** The path to publish the bundle under. It is the manifest's `name`, or made from its time and digest. */
  bundlePath: string;
  description: Digest;
  /** How many files the manifest lists. `bytes` is their size in total. */
  files: number;
  bytes: number;
}

/**
 * Extracts an upload and makes sure that it is a complete, valid bundle: every size, digest and scene map is
 * checked. Throws any error from `extractArchive`, `invalid_bundle` with all findings, `files_missing` with
 * the files that a partial archive lacks, `insufficient_storage`, or the signal's reason. The directory is
 * removed before throwing.
 */
export async function stageUpload(request: StageRequest): Promise<StagedBundle> {
  try {
    return await stage(request);
  } catch (error) {
    await (request.disk ?? blockingDisk).remove(request.directory);
    throw request.signal.aborted ? stopReason(request.signal) : stagingFailure(error);
  }
}

/**
 * Opens a bundle that was staged in `directory` by `stageUpload`. Throws `bundle_not_found` if it is gone,
 * and `body_mismatch` if the digest of its description is not `description`, or if its manifest or signature
 * is not the one described. If any other file has changed, that shows when the file is read.
 */
export async function openStagedBundle(
  directory: string,
  pipelineId: string,
  bundlePath: string,
  description?: Digest,
): Promise<SourceBundle> {
  const facts = readDescription(directory, description);
  const bytes = readStagedFile(path.join(directory, filesName, manifestName));
  const { manifest, findings } = parseManifest(bytes, manifestName);
  if (manifest === null) throw invalidBundle('the staged bundle', findings);
  const signature = readSignature(path.join(directory, filesName));
  if (description !== undefined) checkAgainstDescription(facts, { manifest: bytes, signature });
  const storage = await localStorage(path.join(directory, filesName), { readOnly: true });
  return {
    identity: { backend: 'http_upload', id: pipelineId, path: bundlePath },
    path: bundlePath,
    name: manifest.name,
    revision: revisionOf(manifest.document['metadata']),
    created: manifest.created,
    manifestFile: {
      digest: digestOf(bytes),
      body: storedBody(storage, { key: keyOf(manifestName as RelativePath), size: bytes.byteLength }),
    },
    signatureFile: signature === null ? null : { digest: digestOf(signature), body: bytesBody(signature) },
    files: bundleFiles(storage, manifest, facts.files),
    warnings: facts.warnings,
  };
}

/** Turns a full disk into an `insufficient_storage` error. All other errors are returned as they are. */
export function stagingFailure(error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === 'ENOSPC' || errno === 'EDQUOT')
    return new WaybillError('insufficient_storage', 'the staging disk is full', {
      cause: error,
      hint: 'try again later',
    });
  return error;
}

async function stage(request: StageRequest): Promise<StagedBundle> {
  const { directory, limits, signal, sceneMaps, partial = null, signatures = null } = request;
  const { makeManifest, content } = request;
  const { yieldToEventLoop = neverYield, disk = blockingDisk } = request;
  await yieldToEventLoop();
  signal.throwIfAborted();
  const files = path.join(directory, filesName);
  await disk.makeDirectory(files);
  const input = abortable(request.input, signal);
  // The manifest of a partial archive is the only record of the files that were left out.
  const needsManifest = makeManifest === undefined || partial !== null;
  const extraction = await extractArchive({
    input,
    directory: files,
    limits,
    needsManifest,
    yieldToEventLoop,
    disk,
  });
  if (!extraction.files.has(manifestName as RelativePath)) {
    const made = await makeManifest?.(extraction, files);
    if (made !== undefined) await disk.writeFile(path.join(files, manifestName), made);
  }
  await yieldToEventLoop();
  // Read this synchronously: the file was just written, and parsing it takes much longer.
  const bytes = readFileSync(path.join(files, manifestName));
  if (partial !== null) checkPartialManifest(bytes, partial);
  const { manifest, findings } = parseManifest(bytes, manifestName, limits.maxFiles);
  if (manifest === null) throw invalidBundle('the upload', findings);
  if (signatures !== null)
    checkSignature(signatures, { bytes, manifest, signature: readSignature(files) }, 'the upload');

  const received = new Set(extraction.files.keys());
  const { maxUploadSize } = limits;
  const completing = { directory: files, maxUploadSize, signal };
  const missing =
    partial === null ? [] : await completeBundle(extraction, manifest, content ?? noContent, completing);
  for (const each of checkFiles(manifest, extraction, missing)) findings.push(each);
  const measured = manifest.files.flatMap(({ path: name }) => extraction.files.get(name) ?? []);
  if (!hasErrors(findings) && missing.length === 0)
    findings.push(...(await sceneMapFindings(files, manifest, measured, sceneMaps)));
  if (hasErrors(findings)) throw invalidBundle('the upload', findings);
  // Even if files are missing, store the ones that arrived, so the client does not have to send them again.
  await content?.keep(uploadedFiles(manifest, extraction, received, files));
  if (missing.length > 0) throw filesMissingError(missing);
  await yieldToEventLoop();
  const signature = readSignature(files);
  const description = descriptionText({ files: measured, warnings: findings, manifest: bytes, signature });
  await disk.writeFile(path.join(directory, descriptionName), description);
  signal.throwIfAborted();
  return {
    directory,
    manifest,
    contentDigest: contentDigest(manifest, ({ path }) => (extraction.files.get(path) as FileFacts).digest),
    bundlePath: uploadBundlePath(manifest, manifestDigest(manifest)),
    description: digestOf(description),
    files: measured.length,
    bytes: measured.reduce((sum, { size }) => sum + size, 0),
  };
}

async function sceneMapFindings(
  directory: string,
  manifest: Manifest,
  measured: readonly FileFacts[],
  rules: SceneMapRules = defaultSceneMapRules,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const storage = await localStorage(directory, { readOnly: true });
  await inParallel(bundleFiles(storage, manifest, measured), maxConcurrentSceneMaps, async (file) => {
    findings.push(...(await checkSceneMapFile(file, rules)));
  });
  return findings;
}

/** Stores no files. */
const noContent: BundleContent = { place: async () => null, keep: async () => undefined };

/** Yields the listed files that were in the archive, with their location in `directory`. */
function* uploadedFiles(
  manifest: Manifest,
  { files }: Extraction,
  received: ReadonlySet<RelativePath>,
  directory: string,
): Generator<CachedFile> {
  for (const { path: name } of manifest.files)
    if (received.has(name)) yield { ...(files.get(name) as FileFacts), file: path.join(directory, name) };
}

/**
 * Checks that every listed file is there with the right size and digest. Skips files that are reported as
 * missing already; `missing` has their pointers.
 */
function checkFiles(manifest: Manifest, { files }: Extraction, missing: readonly Finding[]): Finding[] {
  const findings: Finding[] = [];
  const reported = new Set(missing.map(({ pointer }) => pointer));
  manifest.files.forEach(({ path, size, digest }, index) => {
    const found = files.get(path);
    const pointer = `/files/${index}`;
    if (reported.has(pointer)) return;
    if (found === undefined)
      findings.push(
        finding('error', 'file_missing', 'is listed in the manifest and is not in the archive', {
          file: path,
          pointer,
        }),
      );
    else if (size !== null && found.size !== size)
      findings.push({ ...wrongSize({ path, size }, found.size), pointer });
    else if (digest !== null && found.digest !== digest)
      findings.push({ ...wrongDigest({ path, digest }, found.digest), pointer });
  });
  const listed = new Set<string>([manifestName, signatureName, ...manifest.files.map(({ path }) => path)]);
  return [
    ...findings,
    ...unlistedWarning(
      manifestName,
      [...files.keys()].filter((file) => !listed.has(file)),
    ),
  ];
}

/** Returns the files in the manifest with their sizes and digests, which `measured` has in the same order. */
function bundleFiles(storage: Storage, { files }: Manifest, measured: readonly FileFacts[]): BundleFile[] {
  if (measured.length !== files.length) throw stagedFilesLost();
  return files.map(({ path, kind, contentType }, index) => {
    const { size, digest } = measured[index] as FileFacts;
    return { path, kind, contentType, size, digest, body: storedBody(storage, { key: keyOf(path), size }) };
  });
}

/** Returns the signature of a staged bundle, or null if there is none. */
function readSignature(files: string): Buffer | null {
  const file = path.join(files, signatureName);
  return existsSync(file) ? readStagedFile(file) : null;
}

function stopReason({ reason }: AbortSignal): WaybillError {
  if (reason instanceof WaybillError) return reason;
  return new WaybillError('aborted', 'the upload was stopped before it was staged', {
    cause: asWaybillError(reason),
    hint: 'upload it again',
  });
}
