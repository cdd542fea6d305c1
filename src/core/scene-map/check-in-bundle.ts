import type { Finding } from '../lib/errors.ts';

/** The kind under which a manifest lists scene maps. */
export const sceneMapKind = 'scene_map';
/** Bytes. Scene maps are checked in memory. */
export const maxSceneMapBytes = 16 * 2 ** 20;

/**
 * Checks a scene map of a bundle. `file` is its name in the findings. Errors make the bundle invalid, and
 * violated content rules are warnings. The validator is loaded with the first scene map, because most bundles
 * have none.
 */
export async function checkSceneMapBytes(bytes: Uint8Array, file: string): Promise<Finding[]> {
  const { checkSceneMap } = await import('./read-scene-map.ts');
  return checkSceneMap(bytes, file, { maxBytes: maxSceneMapBytes });
}
