import { digestOf } from '../lib/digest.ts';
import { finding, type Finding } from '../lib/errors.ts';
import { checkSceneMapBytes, maxSceneMapBytes, sceneMapKind } from '../scene-map/check-in-bundle.ts';
import type { BundleFile } from './source-bundle.ts';

/** Whether a content finding makes the bundle invalid (`error`) or is only reported beside it. */
export interface SceneMapRules {
  contentRules: 'warning' | 'error';
}

export const defaultSceneMapRules: SceneMapRules = { contentRules: 'warning' };

/**
 * Reads and checks a file of kind `scene_map`; a file of another kind has no findings. What is wrong with it
 * are errors; what is only doubtful are warnings, or errors if the rules say so. A failure to read is
 * thrown.
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
