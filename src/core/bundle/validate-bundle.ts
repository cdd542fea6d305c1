import { type Digest, digestOf } from '../lib/digest.ts';
import { type Finding, finding, hasCode } from '../lib/errors.ts';
import { inParallel } from '../lib/parallel.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { checkSceneMapBytes, maxSceneMapBytes, sceneMapKind } from '../scene-map/check-in-bundle.ts';
import { checkBody, measure } from '../storage/body.ts';
import type { BundleFile, SourceBundle } from './source-bundle.ts';

export interface ValidateOptions {
  /** Called with the size in bytes of each chunk that was read. */
  onBytes?: (count: number) => void;
  /** Number of files read concurrently. Default: 8. */
  concurrency?: number;
  sceneMaps?: SceneMapRules;
  /**
   * With `scene_maps`, only scene maps are read, and the sizes of other files come from the listing from
   * which the bundle was loaded. Default: `all`.
   */
  contents?: 'all' | 'scene_maps';
}

const maxConcurrentFiles = 8;

/**
 * Reads a bundle and reports each file with a wrong size, digest or scene map, sorted by path. Warnings are
 * already in `bundle.warnings`. Throws if a read fails for any reason other than a missing file.
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

/**
 * Receives the progress of reads that happen before it is known which files to write. They can take as long
 * as writing.
 */
export interface Reading {
  /** Adds bytes to the expected total. */
  expect: (bytes: number) => void;
  onBytes: (count: number) => void;
}

/**
 * Returns the bundle with all digests known. Files without a declared digest are read once for all
 * destinations, and the progress is reported to the first destination's `reading`. Throws `body_mismatch` if
 * a file does not have its listed size.
 */
export function withDigests(bundle: SourceBundle, reading?: Reading): Promise<DigestedBundle> {
  const known = completed.get(bundle);
  if (known !== undefined) return known;
  const completing = complete(bundle, reading);
  completed.set(bundle, completing);
  completing.catch(() => completed.delete(bundle));
  return completing;
}

async function complete(bundle: SourceBundle, reading: Reading | undefined): Promise<DigestedBundle> {
  const files = [...bundle.files];
  const missing = [...files.entries()].filter(([, { digest }]) => digest === null);
  reading?.expect(missing.reduce((sum, [, { size }]) => sum + size, 0));
  await inParallel(missing, maxConcurrentFiles, async ([index, file]) => {
    const found = await measure(file.body.open(), reading?.onBytes);
    checkBody(file.path, found, { size: file.size });
    files[index] = { ...file, digest: found.digest };
  });
  return { ...bundle, files: files as DigestedFile[] };
}

async function validateFile(file: BundleFile, { onBytes, sceneMaps }: ValidateOptions): Promise<Finding[]> {
  try {
    const found = await measure(file.body.open(), onBytes);
    if (found.size !== file.size) return [wrongSize(file, found.size)];
    if (file.digest !== null && found.digest !== file.digest) return [wrongDigest(file, found.digest)];
    const doubts = await checkSceneMapFile(file, sceneMaps ?? defaultSceneMapRules);
    return doubts.filter(({ severity }) => severity === 'error');
  } catch (error) {
    if (!hasCode(error, 'storage_not_found')) throw error;
    return [
      finding('error', 'file_missing', 'is listed in the manifest but does not exist', { file: file.path }),
    ];
  }
}

/** Whether a content finding makes the bundle invalid (`error`) or is only reported (`warning`). */
export interface SceneMapRules {
  contentRules: 'warning' | 'error';
}

export const defaultSceneMapRules: SceneMapRules = { contentRules: 'warning' };

/**
 * Reads and checks a file of kind `scene_map`. Files of other kinds have no findings. Violations are errors.
 * Suspicious content is a warning, or an error if the rules say so. Throws if the file cannot be read.
 */
export async function checkSceneMapFile(file: BundleFile, rules: SceneMapRules): Promise<Finding[]> {
  if (file.kind !== sceneMapKind) return [];
  const invalid = (code: string, message: string): Finding[] => [
    finding('error', code, message, { file: file.path }),
  ];
  if (file.size > maxSceneMapBytes)
    return invalid(
      'scene_map_too_large',
      `has ${file.size} bytes, and a scene map may have ${maxSceneMapBytes}`,
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
    `should have ${size} bytes, and has ${found > size ? 'more' : found}`,
    { file: path },
  );
}

export function wrongDigest({ path, digest }: Pick<BundleFile, 'path' | 'digest'>, found: string): Finding {
  return finding('error', 'digest_mismatch', `should have the digest ${String(digest)}, and has ${found}`, {
    file: path,
  });
}

function applyRules(findings: Finding[], rules: SceneMapRules): Finding[] {
  return rules.contentRules === 'error' ? findings.map((each) => ({ ...each, severity: 'error' })) : findings;
}
