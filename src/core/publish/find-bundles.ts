import path from 'node:path';
import { type BundleCandidate, discoverBundles, type Discovery } from '../bundle/discover.ts';
import { maxListedFiles } from '../bundle/limits.ts';
import { manifestName } from '../bundle/manifest.ts';
import { type DigestCache, noDigestCache, openDigestCache } from '../bundle/pack/digest-cache.ts';
import { manifestText } from '../bundle/pack/make-manifest.ts';
import { type FileSelection, noFiles, type SelectedFile, selectFiles } from '../bundle/pack/select-files.ts';
import { hasErrors, invalidBundle } from '../bundle/source-bundle.ts';
import type { PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { type Digest, digestOf } from '../lib/digest.ts';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { Instant } from '../lib/instant.ts';
import { inParallel } from '../lib/parallel.ts';
import { parseRelativePath, type RelativePath } from '../lib/paths.ts';
import { describeLocation, type SourceLocation } from '../storage/backends.ts';
import { readAll, sizeAndDigest } from '../storage/body.ts';
import { keyOf, listedKey } from '../storage/key.ts';
import type { Stamp, Storage } from '../storage/storage.ts';
import { followLinks } from '../storage/wrappers/follow-links.ts';

/** The bundles in a source, and the paths that its patterns exclude. */
interface FoundBundles extends Discovery {
  excluded: readonly string[];
}

const maxConcurrentFiles = 8;

/** Larger files than this, in bytes, are not manifests of web apps. */
const maxWebAppManifestBytes = 64 * 1024;
/** Keys of a web app's or a browser extension's manifest. A bundle's manifest has other required keys. */
const webAppKeys = ['short_name', 'icons', 'start_url', 'display', 'manifest_version'] as const;

/**
 * Finds the bundles in a pipeline's source. Each directory with a manifest is one; with `manifest: auto`, the
 * source directory itself is the only one if it has no manifest, and its manifest is generated. Files that
 * have not changed since the last call are not read again. A dry run leaves the digest cache alone. Throws
 * the same errors as `discoverBundles`.
 */
export async function findBundles(
  context: Pick<CoreContext, 'clock' | 'log' | 'cacheDirectory' | 'signal'>,
  storage: Storage,
  { id, source, autoManifest }: Pick<PipelineConfig, 'id' | 'source' | 'autoManifest'>,
  { dryRun }: { dryRun: boolean },
): Promise<FoundBundles> {
  const isAuto = autoManifest !== undefined && source.backend !== 'http_upload';
  const manifest = isAuto ? await rootManifest(storage) : 'bundle';
  if (!isAuto || manifest === 'bundle')
    return { ...(await discoverBundles(storage, context.signal)), excluded: [] };
  // File timestamps come from the server's clock, so correct for its offset if we know it.
  const listedAt = new Date(context.clock.now().getTime() + (storage.facts.clockOffsetMs ?? 0));
  const { files, findings, excluded } = await selectFiles(storage, autoManifest, {
    stamps: true,
    manifestIsContent: manifest === 'web app',
  });
  const found: FoundBundles = { candidates: [], invalid: [], warnings: [], excluded };
  findings.push(...countFindings({ files, findings, excluded }));
  const refused = (): FoundBundles => {
    found.invalid.push({
      path: '.',
      error: invalidBundle(`the directory "${directoryOf(source)}"`, findings, {
        verdict: 'cannot be published',
        hint: hintFor(findings, files.length, excluded),
      }),
    });
    return found;
  };
  if (hasErrors(findings)) return refused();
  const cache =
    context.cacheDirectory === undefined
      ? noDigestCache
      : openDigestCache(
          path.join(context.cacheDirectory, 'digests'),
          `${source.backend} ${describeLocation(source)}`,
          context.log,
        );
  const { digests, read } = await digestsOf(context, storage, files, cache, findings);
  if (!dryRun) cache.keep(files, digests, { listedAt, read });
  if (hasErrors(findings)) return refused();
  found.candidates.push(candidateOf(files, digests, { name: nameOf(id), listedAt }));
  return found;
}

/**
 * Says what the `manifest.json` at the root of a source is. Browsers know the manifest of a web app under the
 * same name, and it is published like any other file. A manifest that cannot be read is a bundle's, so that
 * its errors are reported.
 */
async function rootManifest(storage: Storage): Promise<'none' | 'bundle' | 'web app'> {
  const key = listedKey(manifestName);
  const found = await storage.stat(key);
  if (found?.type !== 'file') return 'none';
  if (found.size > maxWebAppManifestBytes) return 'bundle';
  const keys = keysOf(await readAll(storage, key, maxWebAppManifestBytes));
  const isWebApp =
    !keys.includes('files') && !keys.includes('created') && webAppKeys.some((one) => keys.includes(one));
  return isWebApp ? 'web app' : 'bundle';
}

/** Returns the keys of a JSON object; none if the bytes are not one. */
function keysOf(bytes: Uint8Array): string[] {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof value === 'object' && value !== null ? Object.keys(value) : [];
  } catch {
    return [];
  }
}

/** Returns a short name, because the result has the location of the source next to it. */
function directoryOf(source: SourceLocation): string {
  const name = 'path' in source ? path.basename(source.path) : '';
  return name === '' ? describeLocation(source) : name;
}

function hintFor(findings: readonly Finding[], files: number, excluded: readonly string[]): string {
  if (files === 0 && findings.every(({ code }) => code === 'no_files')) return addFiles(excluded);
  const onlyChanged = findings.every(
    ({ code, severity }) => severity === 'warning' || code === 'file_changed',
  );
  return onlyChanged ? 'run again when no program writes to the directory' : fixTheFiles;
}

const fixTheFiles =
  'fix these files or exclude them; patterns can also be in .waybillignore, or in exclude: of a source';

function addFiles(excluded: readonly string[]): string {
  return excluded.length === 0
    ? 'add files, or name another directory'
    : 'change the patterns: they are in --exclude, --include, .waybillignore, or exclude: of a source';
}

function countFindings({ files, findings, excluded }: FileSelection): Finding[] {
  if (files.length === 0 && findings.length === 0) return [noFiles({ excluded })];
  if (files.length <= maxListedFiles) return [];
  const message = `it has ${files.length} files, more than the maximum of ${maxListedFiles} per bundle; split it`;
  return [finding('error', 'too_many_listed_files', message, { file: '.' })];
}

/**
 * Returns the digests of these files. Files that are not in the cache are hashed, and `read` is the number
 * of those. A file that changes while it is being read becomes a finding.
 */
async function digestsOf(
  { signal }: Pick<CoreContext, 'signal'>,
  storage: Storage,
  files: readonly SelectedFile[],
  cache: DigestCache,
  findings: Finding[],
): Promise<{ digests: Map<RelativePath, Digest>; read: number }> {
  const digests = new Map<RelativePath, Digest>();
  const unknown: SelectedFile[] = [];
  for (const file of files) {
    const digest = cache.digestOf(file.path, file.stamp);
    if (digest === undefined) unknown.push(file);
    else digests.set(file.path, digest);
  }
  await inParallel(unknown, maxConcurrentFiles, async (file) => {
    signal?.throwIfAborted();
    const found = await measureUnchanged(storage, file);
    if (found === null)
      findings.push(
        finding('error', 'file_changed', 'changed while it was read', {
          file: file.path,
        }),
      );
    else digests.set(file.path, found);
  });
  return { digests, read: unknown.length };
}

/** Returns a file's digest, or null if the file has changed since it was listed. */
async function measureUnchanged(
  storage: Storage,
  { path: file, size, stamp }: SelectedFile,
): Promise<Digest | null> {
  try {
    const found = await sizeAndDigest(storage.read(keyOf(file)));
    if (found.size !== size) return null;
    const after = await storage.stat(keyOf(file));
    return after?.size === size && (stamp === null || isOfTime(stamp, after.modifiedAt))
      ? found.digest
      : null;
  } catch (error) {
    if (error instanceof WaybillError && error.code === 'storage_not_found') return null;
    throw error;
  }
}

/** Compares times with some tolerance: `stat` rounds to milliseconds, and object stores round to seconds. */
function isOfTime({ modifiedAt, isExact }: Stamp, time: Date | null): boolean {
  return time === null || Math.abs(time.getTime() - modifiedAt.getTime()) <= (isExact ? 1_000 : 1);
}

function candidateOf(
  files: readonly SelectedFile[],
  digests: ReadonlyMap<RelativePath, Digest>,
  { name, listedAt }: { name: RelativePath | undefined; listedAt: Date },
): BundleCandidate {
  const created = newestOf(files, listedAt).toISOString() as Instant;
  const listed = files.map(({ path: file, size }) => ({
    path: file,
    kind: 'file',
    contentType: null,
    size,
    digest: digests.get(file) as Digest,
  }));
  const generated = Buffer.from(manifestText(listed, { created, name }));
  return {
    path: '.',
    directory: '',
    created,
    generated,
    manifest: { name: name ?? null, files: listed },
    manifestFile: { size: generated.byteLength, digest: digestOf(generated) },
  };
}

/**
 * Returns the newest file's time. Ignores times after `listedAt`, which would make later bundles count as
 * older, unless all files have one.
 */
function newestOf(files: readonly SelectedFile[], listedAt: Date): Date {
  const times = files.map(({ stamp }) => stamp?.modifiedAt.getTime() ?? 0);
  const past = times.filter((time) => time <= listedAt.getTime());
  return past.length === 0 ? listedAt : new Date(past.reduce((latest, time) => Math.max(latest, time), 0));
}

function nameOf(id: string): RelativePath | undefined {
  const verdict = parseRelativePath(id);
  return verdict.ok ? verdict.path : undefined;
}

/**
 * Opens a source for reading. Follows symbolic links if the pipeline allows it. Throws the same errors as
 * `openStorage`.
 */
export async function openSource(
  { openStorage }: Pick<CoreContext, 'openStorage'>,
  { source, followLinks: links }: { source: SourceLocation } & Pick<PipelineConfig, 'followLinks'>,
  { dryRun }: { dryRun: boolean },
): Promise<Storage> {
  const options = { readOnly: true, mustExist: true, dryRun };
  const storage = await openStorage(source, options);
  if (links === undefined) return storage;
  const root = source.backend === 'local' ? source.path : null;
  const open = async (path: string): Promise<Storage> => openStorage({ backend: 'local', path }, options);
  return followLinks(storage, { root, linksTo: links.linksTo, open });
}

/**
 * Returns the location of a pipeline's source. Throws a `usage` error for upload pipelines, which have none.
 */
export function readableSource({ id, source }: PipelineConfig): SourceLocation {
  if (source.backend !== 'http_upload') return source;
  throw new WaybillError('usage', `pipeline "${id}" accepts uploads and has no source to read`, {
    hint: 'choose a pipeline whose source is a local directory, SFTP or S3',
  });
}
