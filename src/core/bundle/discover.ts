import { type Digest, digestOf } from '../lib/digest.ts';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { Instant } from '../lib/instant.ts';
import { inParallel } from '../lib/parallel.ts';
import { compareCodeUnits, isReservedSegment, parseRelativePath } from '../lib/paths.ts';
import { invalidKey, notUtf8, renameHint } from '../lib/text.ts';
import type { SignaturePolicy } from '../signing/trusted-keys.ts';
import { bytesBody, readAll, storedBody } from '../storage/body.ts';
import type { SourceIdentity } from '../storage/identity.ts';
import { joinKey, type Key, keyOf, nameOf } from '../storage/key.ts';
import type { Body, Entry, Storage, UnreadableName } from '../storage/storage.ts';
import { ListingLimit } from '../storage/untrusted.ts';
import { fileProblem, linkInPath, listBundle, unlistedWarning, unreadableFindings } from './listed-files.ts';
import {
  type Manifest,
  manifestName,
  maxManifestBytes,
  maxSignatureBytes,
  parseManifest,
} from './manifest.ts';
import { requireTrusted } from './signed-bundle.ts';
import {
  type BundleFile,
  hasErrors,
  invalidBundle,
  type Revision,
  revisionOf,
  type SignatureFile,
  type SourceBundle,
} from './source-bundle.ts';
import { checkSceneMapFile, defaultSceneMapRules, type SceneMapRules } from './validate-bundle.ts';

/** A bundle with a valid manifest. Whether its files exist is checked later, by `loadBundle`. */
export interface BundleCandidate {
  /** The path relative to the source root; `.` for a bundle at the root. */
  path: string;
  directory: Key | '';
  created: Instant;
  /** Without the JSON document, because there may be many large manifests in a source. */
  manifest: Pick<Manifest, 'name' | 'files'>;
  revision?: Revision | null;
  /** The size and digest of `manifest.json`. */
  manifestFile: { size: number; digest: Digest };
  /**
   * The bytes of a manifest that does not exist as a file, because it was generated from a listing. Its files
   * are known to exist.
   */
  generated?: Buffer;
}

export interface Discovery {
  /** Sorted by path, like `invalid`. */
  candidates: BundleCandidate[];
  invalid: { path: string; error: WaybillError }[];
  warnings: Finding[];
}

/** How many directories to list, and manifests to read, at a time. */
const concurrency = 16;

/**
 * Finds the bundles below the root of a source, level by level. If a directory has a `manifest.json`, it is a
 * bundle, and its subdirectories are not searched. Hidden directories, links and special files are skipped
 * with a warning. If a directory cannot be listed or a manifest cannot be read, throws that `storage_*`
 * error, because an incomplete result would look like a complete one. Throws the signal's reason if it aborts
 * first.
 */
export async function discoverBundles(storage: Storage, signal?: AbortSignal): Promise<Discovery> {
  const found: Discovery = { candidates: [], invalid: [], warnings: [] };
  const limit = new ListingLimit();
  for (let level: (Key | '')[] = ['']; level.length > 0;) {
    const next: Key[] = [];
    await inParallel(level, concurrency, async (directory) => {
      const manifestKey = joinKey(directory, manifestName);
      let manifest: Entry | undefined;
      const others: Entry[] = [];
      const unreadable: UnreadableName[] = [];
      const onUnreadable = (name: UnreadableName): void => void unreadable.push(name);
      signal?.throwIfAborted();
      for await (const entry of storage.list(directory, { recursive: false, onUnreadable, limit })) {
        signal?.throwIfAborted();
        if (entry.type !== 'file') others.push(entry);
        else if (entry.key === manifestKey) manifest = entry;
      }
      if (manifest === undefined) {
        for (const below of directoriesToSearch(others, found.warnings)) next.push(below);
        reportUnreadable(found, unreadable);
      } else addCandidate(found, directory, await readCandidate(storage, directory, manifest));
    });
    level = next;
  }
  found.candidates.sort((a, b) => compareCodeUnits(a.path, b.path));
  found.invalid.sort((a, b) => compareCodeUnits(a.path, b.path));
  found.warnings.sort((a, b) => compareCodeUnits(a.file ?? '', b.file ?? ''));
  return found;
}

export interface BundleSource {
  backend: SourceIdentity['backend'];
  /** The configured location or, for uploads, the id of the pipeline. */
  id: string;
  sceneMaps?: SceneMapRules;
  /** Which signatures the bundles need; default: none. */
  signatures?: SignaturePolicy | null;
}

/** A file of a bundle. It has an identity if it was listed on this machine. */
type ListedFile = Pick<Entry, 'key' | 'size' | 'identity'>;

const maxConcurrentSceneMaps = 4;

/**
 * Loads a candidate as a bundle. Lists its directory recursively and makes sure that each file in the
 * manifest is a regular file of the declared size. Only scene maps are read. They and the signature are
 * checked. Throws `invalid_bundle` with all findings, any error from `requireTrusted`, or the storage's own
 * error. `bodyOf` opens a file; by default, files are read from `storage`.
 */
export async function loadBundle(
  storage: Storage,
  candidate: BundleCandidate,
  source: BundleSource,
  bodyOf: (file: ListedFile) => Body = (file) => storedBody(storage, file),
): Promise<SourceBundle> {
  const { directory, manifest } = candidate;
  if (candidate.generated !== undefined)
    return requireTrusted(generatedBundle(candidate, candidate.generated, source, bodyOf), source.signatures);
  const listing = await listBundle(storage, directory, manifest.files);
  const findings: Finding[] = [];
  const files: BundleFile[] = [];
  manifest.files.forEach(({ path, kind, contentType, size, digest }, index) => {
    const entry = listing.present.get(path);
    const wrong = fileProblem(entry, size, () => linkInPath(path, listing.links));
    if (wrong !== null)
      findings.push(finding('error', wrong.code, wrong.message, { file: path, pointer: `/files/${index}` }));
    else if (entry !== undefined)
      files.push({ path, kind, contentType, size: entry.size, digest, body: bodyOf(entry) });
  });
  await inParallel(files, maxConcurrentSceneMaps, async (file) => {
    findings.push(...(await checkSceneMapFile(file, source.sceneMaps ?? defaultSceneMapRules)));
  });
  findings.push(...unlistedWarning(candidate.path, listing.unlisted));
  findings.push(...unreadableFindings(listing, findings));
  if (hasErrors(findings))
    throw invalidBundle(candidate.path === '.' ? 'the source root' : `"${candidate.path}"`, findings);
  const body = bodyOf({ key: joinKey(directory, manifestName), size: candidate.manifestFile.size });
  const signatureFile = await readSignature(storage, listing.signature);
  const bundle = { ...bundleOf(candidate, source, body), signatureFile, files, warnings: findings };
  return requireTrusted(bundle, source.signatures);
}

/**
 * Returns the signature, or null if there is none. Links, directories and large files are ignored, since they
 * cannot be signatures.
 */
async function readSignature(storage: Storage, entry: Entry | null): Promise<SignatureFile | null> {
  if (entry?.type !== 'file' || entry.size > maxSignatureBytes) return null;
  const bytes = await readAll(storage, entry.key, maxSignatureBytes, entry.identity);
  return { digest: digestOf(bytes), body: bytesBody(bytes) };
}

function generatedBundle(
  candidate: BundleCandidate,
  made: Buffer,
  source: BundleSource,
  bodyOf: (file: ListedFile) => Body,
): SourceBundle {
  const files = candidate.manifest.files.map((file): BundleFile => {
    const size = file.size ?? 0;
    return { ...file, size, body: bodyOf({ key: keyOf(file.path), size }) };
  });
  return { ...bundleOf(candidate, source, bytesBody(made)), files, warnings: [] };
}

function bundleOf(
  { path, created, manifest: { name }, revision = null, manifestFile: { digest } }: BundleCandidate,
  { backend, id }: BundleSource,
  body: Body,
): Omit<SourceBundle, 'files' | 'warnings'> {
  return {
    identity: { backend, id, path },
    path,
    name,
    revision,
    created,
    manifestFile: { digest, body },
  };
}

function addCandidate(found: Discovery, directory: Key | '', read: BundleCandidate | Finding[]): void {
  const path = directory === '' ? '.' : directory;
  if (Array.isArray(read))
    found.invalid.push({
      path,
      error: invalidBundle(path === '.' ? 'the source directory' : `"${path}"`, read),
    });
  else found.candidates.push(read);
}

/**
 * Adds a warning for each object key that is not possible as a path. If the name of a directory is not UTF-8,
 * there may be bundles inside that we cannot read, so the directory is reported as an invalid bundle.
 */
function reportUnreadable(found: Discovery, unreadable: readonly UnreadableName[]): void {
  for (const { reason, directory, decoded, escaped, type } of unreadable) {
    const file = joinKey(directory, escaped);
    if (reason === 'no_path')
      found.warnings.push(finding('warning', 'key_skipped', `${invalidKey}, so it was skipped`, { file }));
    if (reason === 'no_path' || type !== 'directory' || decoded.startsWith('.')) continue;
    addCandidate(found, file, [
      finding('error', 'unsafe_bundle_path', `${notUtf8}; ${renameHint}`, { file }),
    ]);
  }
}

const linkNotFollowed =
  'is a symbolic link, which is not followed; use links: follow, or put the bundle here';

function directoriesToSearch(entries: readonly Entry[], warnings: Finding[]): Key[] {
  const directories: Key[] = [];
  const skip = (code: string, file: string, message: string): void =>
    void warnings.push(finding('warning', code, message, { file }));
  for (const { key, type, unfollowed } of entries) {
    const name = nameOf(key);
    if (isReservedSegment(name)) continue;
    if (type === 'link') skip('link_skipped', key, unfollowed ?? linkNotFollowed);
    else if (type === 'other')
      skip('special_file_skipped', key, 'is neither a file nor a directory, so it was skipped');
    else if (name.startsWith('.'))
      skip('dot_directory_skipped', key, 'begins with a dot, so it was not searched for bundles');
    else directories.push(key);
  }
  return directories;
}

/** Returns a candidate, or findings if its manifest or path is invalid. */
async function readCandidate(
  storage: Storage,
  directory: Key | '',
  { key, size, identity }: Entry,
): Promise<BundleCandidate | Finding[]> {
  const path = directory === '' ? '.' : directory;
  const verdict = parseRelativePath(path);
  if (path !== '.' && !verdict.ok) {
    const message = `the path of the bundle ${verdict.reason}`;
    return [finding('error', 'unsafe_bundle_path', message, { file: path })];
  }
  if (size > maxManifestBytes) {
    const message = `has ${size} bytes; the maximum for a manifest is ${maxManifestBytes}`;
    return [finding('error', 'manifest_too_large', message, { file: key })];
  }
  const bytes = await readAll(storage, key, maxManifestBytes, identity);
  const { manifest, findings } = parseManifest(bytes, key);
  if (manifest === null) return findings;
  return {
    path,
    directory,
    created: manifest.created,
    manifest: { name: manifest.name, files: manifest.files },
    revision: revisionOf(manifest.document['metadata']),
    manifestFile: { size: bytes.byteLength, digest: digestOf(bytes) },
  };
}
