import type { Finding } from '../lib/errors.ts';

export const sceneMapKind = 'scene_map';
/** The maximum size in bytes. It is limited because a scene map is checked in memory. */
export const maxSceneMapBytes = 16 * 2 ** 20;

/**
 * Checks a scene map in a bundle. Findings refer to it as `file`. Errors make the bundle invalid; violations
 * of content rules are warnings. The validator is imported on demand, because most bundles have no scene
 * maps.
 */
export async function checkSceneMapBytes(bytes: Uint8Array, file: string): Promise<Finding[]> {
  const { checkSceneMap } = await import('./read-scene-map.ts');
  return checkSceneMap(bytes, file, { maxBytes: maxSceneMapBytes });
}
