import path from 'node:path';
import ignore from 'ignore';
import type { Digest } from '../../lib/digest.ts';
import { type Finding, finding, WaybillError } from '../../lib/errors.ts';
import type { Instant } from '../../lib/instant.ts';
import { inParallel } from '../../lib/parallel.ts';
import { compareCodeUnits, type RelativePath } from '../../lib/paths.ts';
import { readAll, sizeAndDigest, storedBody } from '../../storage/body.ts';
import { keyOf, listedKey } from '../../storage/key.ts';
import { localStorage } from '../../storage/local/local-storage.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { followLinks } from '../../storage/wrappers/follow-links.ts';
import { maxListedFiles } from '../limits.ts';
import { fileProblem, linkInPath, listBundle, unlistedWarning, unreadableFindings } from '../listed-files.ts';
import {
  contentDigest,
  type Manifest,
  manifestName,
  maxManifestBytes,
  maxSignatureBytes,
  parseManifest,
  signatureName,
} from '../manifest.ts';
import { type BundleFile, hasErrors, invalidBundle } from '../source-bundle.ts';
import { checkSceneMapFile, defaultSceneMapRules, wrongDigest, wrongSize } from '../validate-bundle.ts';
import { type ManifestFacts, manifestText, type MeasuredFile } from './make-manifest.ts';
import { type MeasuredTarFile, type PackedBundle, packedBundle } from './packed-bundle.ts';
import { noFiles, type Patterns, type SelectedFile, selectFiles } from './select-files.ts';

export interface PackOptions extends Patterns {
  /**
   * Default: the time of the newest file that is not in the future, so that packing the same files again
   * makes the same bundle.
   */
  created?: Instant;
  /** Replaces that default. Unlike `created`, this can be used even if the directory has a manifest. */
  createdByDefault?: Instant;
  name?: RelativePath;
  /** The name to use if there is none in the options or in a manifest. */
  nameByDefault?: RelativePath;
  metadata?: Readonly<Record<string, string>>;
  /** Patterns for the files that are session scene maps, in `.gitignore` syntax. */
  sceneMaps?: readonly string[];
  /** Make a new manifest, even if there already is one. */
  renew?: boolean;
  /** Signs the manifest, after adding any missing digests, so that the signature covers all files. */
  sign?: ManifestSigner;
  /** Called with the size, in bytes, of each chunk that is read for a digest. */
  onBytes?: (count: number) => void;
}

/** Returns the exact bytes of `manifest.json.minisig` for a manifest. */
export type ManifestSigner = (manifest: Uint8Array, created: Instant) => Buffer;

const maxConcurrentFiles = 8;

/**
 * Makes a bundle from a directory without changing the directory. Uses its `manifest.json` if there is one,
 * and checks all listed files. Otherwise, makes a manifest for the files that match the patterns. With an
 * existing manifest, any signature in the directory is included, but not verified.
 *
 * Throws `usage` if there is no such directory, or if it has a manifest but the options are for a new one.
 * Throws `invalid_bundle` with everything that a receiver would object to; the findings have file names below
 * `directory`. If a file or directory cannot be read, throws that error.
 */
export async function packDirectory(directory: string, options: PackOptions = {}): Promise<PackedBundle> {
  const opened = await openDirectory(directory);
  const storage = options.links === 'follow' ? followAllLinks(opened, directory) : opened;
  const found = await storage.stat(listedKey(manifestName));
  if (found !== undefined && found.type !== 'file')
    throw invalidDirectory(directory, [
      finding('error', 'file_not_regular', 'is not a regular file', { file: manifestName }),
    ]);
  if (found === undefined) return makeManifest(storage, directory, options, null);
  const bytes = await readAll(storage, listedKey(manifestName), maxManifestBytes);
  const { manifest, findings } = parseManifest(bytes, manifestName);
  if (manifest === null) throw invalidDirectory(directory, findings);
  if (options.renew === true) return makeManifest(storage, directory, options, manifest);
  refuseOptions(directory, options);
  return checkPresent(storage, directory, { manifest, bytes }, options);
}

async function openDirectory(directory: string): Promise<Storage> {
  try {
    return await localStorage(path.resolve(directory), { readOnly: true, mustExist: true });
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    const reason = error.code === 'storage_not_found' ? 'does not exist' : 'is not a readable directory';
    const hint = 'check the path of the directory to pack or push';
    throw new WaybillError('usage', `"${directory}" ${reason}`, { hint, cause: error });
  }
}

/** Follows links to anywhere on this machine, since packing has no more permissions than the user. */
function followAllLinks(storage: Storage, directory: string): Storage {
  const open = (root: string): Promise<Storage> => localStorage(root, { readOnly: true, mustExist: true });
  return followLinks(storage, { root: path.resolve(directory), linksTo: ['/'], open });
}

function refuseOptions(directory: string, options: PackOptions): void {
  const { include = [], exclude = [], sceneMaps = [] } = options;
  const isAnyGiven =
    [...include, ...exclude, ...sceneMaps].length > 0 ||
    options.created !== undefined ||
    options.name !== undefined ||
    options.metadata !== undefined;
  if (isAnyGiven)
    throw new WaybillError(
      'usage',
      `"${directory}" has a ${manifestName}, which already describes the bundle`,
      {
        hint: 'omit the options that describe the bundle and its files, or create a new manifest with --renew',
      },
    );
}

/** Checks that all files in the existing manifest are there and match it. */
async function checkPresent(
  storage: Storage,
  directory: string,
  { manifest, bytes }: { manifest: Manifest; bytes: Buffer },
  { onBytes, sign }: PackOptions,
): Promise<PackedBundle> {
  const listing = await listBundle(storage, '', manifest.files);
  const findings: Finding[] = unlistedWarning('.', listing.unlisted);
  const files: BundleFile[] = [];
  manifest.files.forEach((file, index) => {
    const wrong = fileProblem(listing.present.get(file.path), file.size, () =>
      linkInPath(file.path, listing.links),
    );
    const entry = listing.present.get(file.path);
    if (wrong === null && entry !== undefined)
      files.push({ ...file, size: entry.size, body: storedBody(storage, entry) });
    else if (wrong !== null)
      findings.push(
        finding('error', wrong.code, wrong.message, { file: file.path, pointer: `/files/${index}` }),
      );
  });
  findings.push(...unreadableFindings(listing, findings));
  const digests = await measureFiles(files, findings, onBytes);
  const own = await presentSignature(storage, listing.signature, findings);
  if (hasErrors(findings)) throw invalidDirectory(directory, findings);
  if (sign === undefined)
    return packed({ directory, manifest, bytes, isNew: false, signature: own, files, digests, findings });
  const whole = files.every(({ digest }) => digest !== null)
    ? { manifest, bytes, isNew: false }
    : { ...completeDocument(manifest, files, digests), isNew: true };
  const signature = sign(whole.bytes, manifest.created);
  return packed({ directory, ...whole, signature, files, digests, findings });
}

/** Returns the signature in the directory. If it is not a small file, adds a finding. */
async function presentSignature(
  storage: Storage,
  entry: Entry | null,
  findings: Finding[],
): Promise<Buffer | null> {
  if (entry === null) return null;
  if (entry.type === 'file' && entry.size <= maxSignatureBytes)
    return readAll(storage, entry.key, maxSignatureBytes, entry.identity);
  const message = `is not a file of at most ${maxSignatureBytes} bytes`;
  findings.push(finding('error', 'signature_invalid', message, { file: signatureName }));
  return null;
}

/** Adds a size and digest for every file to the manifest, and leaves everything else as it is. */
function completeDocument(
  { created, document }: Manifest,
  files: readonly BundleFile[],
  digests: ReadonlyMap<string, Digest>,
): { manifest: Manifest; bytes: Buffer } {
  const listed = files.map(({ path: name, size }) => ({
    path: name,
    size,
    digest: digests.get(name) as Digest,
  }));
  const bytes = Buffer.from(manifestText(listed, { created }, document));
  const { manifest, findings } = parseManifest(bytes, manifestName);
  if (manifest === null) throw invalidDirectory('.', findings);
  return { manifest, bytes };
}

async function makeManifest(
  storage: Storage,
  directory: string,
  options: PackOptions,
  former: Manifest | null,
): Promise<PackedBundle> {
  const selected = await selectFiles(storage, options);
  const findings = [...selected.findings];
  if (selected.files.length === 0 && findings.length === 0) findings.push(noFiles(selected));
  if (selected.files.length > maxListedFiles)
    findings.push(
      finding(
        'error',
        'too_many_listed_files',
        `it has ${selected.files.length} files, more than the maximum of ${maxListedFiles} per bundle; split it`,
        { file: '.' },
      ),
    );
  if (hasErrors(findings)) throw invalidDirectory(directory, findings);

  const kinds = kindsOf(selected.files, options, former);
  const files = selected.files.map(({ path: name, size }): BundleFile => {
    const body = storedBody(storage, { key: keyOf(name), size });
    return { path: name, size, kind: kinds.get(name) ?? 'file', contentType: null, digest: null, body };
  });
  const name = options.name ?? (former?.name == null ? options.nameByDefault : undefined);
  const facts: ManifestFacts = {
    created: options.created ?? options.createdByDefault ?? (await newestOf(storage, files)),
    name,
    metadata: options.metadata,
  };
  const digests = await measureFiles(files, findings, options.onBytes);
  if (hasErrors(findings)) throw invalidDirectory(directory, findings);
  const listed = files.map(({ path: name, size, kind }): MeasuredFile => {
    const digest = digests.get(name) as Digest;
    return { path: name, size, digest, kind: kind === 'file' ? undefined : kind };
  });
  const bytes = Buffer.from(manifestText(listed, facts, former?.document));
  const { manifest, findings: wrong } = parseManifest(bytes, manifestName);
  if (manifest === null) throw invalidDirectory(directory, wrong);
  const signature = options.sign?.(bytes, manifest.created) ?? null;
  if (signature === null && (await storage.stat(listedKey(signatureName))) !== undefined)
    findings.push(
      finding('warning', 'signature_outdated', 'signs another manifest and is left out; sign the new one', {
        file: signatureName,
      }),
    );
  return packed({ directory, manifest, bytes, isNew: true, signature, files, digests, findings });
}

/** Returns the files that are not of kind `file`, according to the options or else the former manifest. */
function kindsOf(
  files: readonly SelectedFile[],
  { sceneMaps = [] }: PackOptions,
  former: Manifest | null,
): Map<string, string> {
  const kinds = new Map<string, string>();
  for (const { path: name, kind } of former?.files ?? []) kinds.set(name, kind);
  const isSceneMap = ignore({ ignorecase: false, allowRelativePaths: true }).add([...sceneMaps]);
  for (const { path: name } of files) if (isSceneMap.ignores(name)) kinds.set(name, 'scene_map');
  return kinds;
}

/** Returns the newest file's time, ignoring future times, which would make later bundles count as older. */
async function newestOf(storage: Storage, files: readonly BundleFile[]): Promise<Instant> {
  const now = Date.now();
  let newest: number | null = null;
  for (const { path: name } of files) {
    const modifiedAt = (await storage.stat(keyOf(name)))?.modifiedAt?.getTime() ?? 0;
    if (modifiedAt <= now) newest = Math.max(newest ?? 0, modifiedAt);
  }
  return new Date(newest ?? now).toISOString() as Instant;
}

/** Reads each file once. Adds a finding if a file does not match the manifest or changes while being read. */
async function measureFiles(
  files: readonly BundleFile[],
  findings: Finding[],
  onBytes: ((count: number) => void) | undefined,
): Promise<Map<string, Digest>> {
  const digests = new Map<string, Digest>();
  await inParallel(files, maxConcurrentFiles, async (file) => {
    const found = await sizeAndDigest(file.body.open(), onBytes);
    digests.set(file.path, found.digest);
    if (found.size !== file.size) findings.push(wrongSize(file, found.size));
    else if (file.digest !== null && found.digest !== file.digest)
      findings.push(wrongDigest(file, found.digest));
    else findings.push(...(await checkSceneMapFile(file, defaultSceneMapRules)));
  });
  return digests;
}

function packed(parts: {
  directory: string;
  manifest: Manifest;
  bytes: Buffer;
  isNew: boolean;
  signature: Buffer | null;
  files: readonly BundleFile[];
  digests: ReadonlyMap<string, Digest>;
  findings: readonly Finding[];
}): PackedBundle {
  const { directory, manifest, bytes, isNew, signature, files, digests, findings } = parts;
  const declared = new Map(manifest.files.map((file) => [file.path, file.digest]));
  const listed: MeasuredTarFile[] = files.map(({ path: name, body }) => ({
    path: name,
    body,
    digest: digests.get(name) as Digest,
    declaredDigest: declared.get(name) ?? null,
  }));
  listed.sort((a, b) => compareCodeUnits(a.path, b.path));
  return packedBundle({
    manifest: bytes,
    isNew,
    signature,
    name: manifest.name,
    created: manifest.created,
    contentDigest: contentDigest(manifest, ({ path: name }) => digests.get(name) as Digest),
    files: listed,
    warnings: withFileNames(directory, findings),
  });
}

function invalidDirectory(directory: string, findings: readonly Finding[]): WaybillError {
  return invalidBundle(`"${directory}"`, withFileNames(directory, findings));
}

/** Adds the directory to the file names in the findings, so that they make sense to the caller. */
function withFileNames(directory: string, findings: readonly Finding[]): Finding[] {
  return findings.map((each) => ({
    ...each,
    file: each.file === null || each.file === '.' ? directory : path.join(directory, each.file),
  }));
}
