import { type Digest, digestOf } from '../lib/digest.ts';
import { type Finding, finding, hasCode } from '../lib/errors.ts';
import { inParallel } from '../lib/parallel.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { checkSceneMapBytes, maxSceneMapBytes, sceneMapKind } from '../scene-map/check-in-bundle.ts';
import { checkBody, sizeAndDigest } from '../storage/body.ts';
import { fileMissing } from './listed-files.ts';
import type { BundleFile, SourceBundle } from './source-bundle.ts';

interface ValidateOptions {
  /** Called with the size of each chunk that was read, in bytes. */
  onBytes?: (count: number) => void;
  /** How many files to read at a time. Default: 8. */
  concurrency?: number;
  sceneMaps?: SceneMapRules;
  /**
   * With `scene_maps`, only scene maps are read. The sizes of other files are known from the listing that the
   * bundle was loaded from. Default: `all`.
   */
  contents?: 'all' | 'scene_maps';
}

const maxConcurrentFiles = 8;

/**
 * Reads a bundle, and returns a finding for each file that has the wrong size, digest or scene map, sorted by
 * path. Warnings are already in `bundle.warnings`. A missing file is a finding. Any other error is thrown.
 */
export async function validateBundle(
  bundle: SourceBundle,
  options: ValidateOptions = {},
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const isRead = ({ kind }: BundleFile): boolean => options.contents !== 'scene_maps' || kind === 'scene_map';
  await inParallel(bundle.files.filter(isRead), options.concurrency ?? maxConcurrentFiles, async (file) => {
    findings.push(...(await validateFile(file, options)));
  });
  return findings.sort((a, b) => compareCodeUnits(a.file ?? '', b.file ?? ''));
}

export interface DigestedFile extends BundleFile {
  digest: Digest;
}

export interface DigestedBundle extends SourceBundle {
  files: DigestedFile[];
}

const completed = new WeakMap<SourceBundle, Promise<DigestedBundle>>();

/** Receives progress while files are read before planning, which can take as long as writing. */
export interface ReadProgress {
  /** Adds to the number of bytes that will be read. */
  expect: (bytes: number) => void;
  onBytes: (count: number) => void;
}

/**
 * Returns the bundle with a digest for every file. Files that have none in the manifest are read, once for
 * all destinations. Progress goes to the `reading` of the first destination. Throws `body_mismatch` if a file
 * does not have the listed size.
 */
export function withDigests(bundle: SourceBundle, reading?: ReadProgress): Promise<DigestedBundle> {
  const known = completed.get(bundle);
  if (known !== undefined) return known;
  const completing = complete(bundle, reading);
  completed.set(bundle, completing);
  completing.catch(() => completed.delete(bundle));
  return completing;
}

async function complete(bundle: SourceBundle, reading: ReadProgress | undefined): Promise<DigestedBundle> {
  const files = [...bundle.files];
  const missing = [...files.entries()].filter(([, { digest }]) => digest === null);
  reading?.expect(missing.reduce((sum, [, { size }]) => sum + size, 0));
  await inParallel(missing, maxConcurrentFiles, async ([index, file]) => {
    const found = await sizeAndDigest(file.body.open(), reading?.onBytes);
    checkBody(file.path, found, { size: file.size });
    files[index] = { ...file, digest: found.digest };
  });
  return { ...bundle, files: files as DigestedFile[] };
}

async function validateFile(file: BundleFile, { onBytes, sceneMaps }: ValidateOptions): Promise<Finding[]> {
  try {
    const found = await sizeAndDigest(file.body.open(), onBytes);
    if (found.size !== file.size) return [wrongSize(file, found.size)];
    if (file.digest !== null && found.digest !== file.digest) return [wrongDigest(file, found.digest)];
    const doubts = await checkSceneMapFile(file, sceneMaps ?? defaultSceneMapRules);
    return doubts.filter(({ severity }) => severity === 'error');
  } catch (error) {
    if (!hasCode(error, 'storage_not_found')) throw error;
    return [finding('error', 'file_missing', fileMissing, { file: file.path })];
  }
}

/**
 * Whether problems with the content of a scene map make the bundle invalid (`error`) or are only reported
 * (`warning`).
 */
export interface SceneMapRules {
  contentRules: 'warning' | 'error';
}

export const defaultSceneMapRules: SceneMapRules = { contentRules: 'warning' };

/**
 * Checks a file if its kind is `scene_map`; returns no findings for any other kind. Violations are errors.
 * Suspicious content is a warning, unless the rules say that it is an error. Throws if the file cannot be
 * read.
 */
export async function checkSceneMapFile(file: BundleFile, rules: SceneMapRules): Promise<Finding[]> {
  if (file.kind !== sceneMapKind) return [];
  const invalid = (code: string, message: string): Finding[] => [
    finding('error', code, message, { file: file.path }),
  ];
  if (file.size > maxSceneMapBytes)
    return invalid(
      'scene_map_too_large',
      `has ${file.size} bytes; the maximum for a scene map is ${maxSceneMapBytes}`,
    );
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of file.body.open()) {
    size += chunk.byteLength;
    if (size > file.size) break;
    chunks.push(chunk);
  }
  if (size !== file.size) return [wrongSize(file, size)];
  const bytes = Buffer.concat(chunks);
  const digest = digestOf(bytes);
  if (file.digest !== null && digest !== file.digest) return [wrongDigest(file, digest)];
  return applyRules(await checkSceneMapBytes(bytes, file.path), rules);
}

export function wrongSize({ path, size }: Pick<BundleFile, 'path' | 'size'>, found: number): Finding {
  return finding(
    'error',
    'size_mismatch',
    `should have ${size} bytes, but has ${found > size ? 'more' : found}`,
    { file: path },
  );
}

export function wrongDigest({ path, digest }: Pick<BundleFile, 'path' | 'digest'>, found: string): Finding {
  return finding('error', 'digest_mismatch', `should have the digest ${String(digest)}, but has ${found}`, {
    file: path,
  });
}

function applyRules(findings: Finding[], rules: SceneMapRules): Finding[] {
  return rules.contentRules === 'error' ? findings.map((each) => ({ ...each, severity: 'error' })) : findings;
}
