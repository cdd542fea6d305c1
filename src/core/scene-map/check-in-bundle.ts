import type { Finding } from '../lib/errors.ts';

/** The kind used for scene maps in a manifest. */
export const sceneMapKind = 'scene_map';
/** The maximum size in bytes, because scene maps are checked in memory. */
export const maxSceneMapBytes = 16 * 2 ** 20;

/**
 * Checks a scene map in a bundle. `file` is its name in the findings. Errors make the bundle invalid, but
 * violations of content rules are only warnings. The validator is loaded lazily, because most bundles contain
 * no scene maps.
 */
export async function checkSceneMapBytes(bytes: Uint8Array, file: string): Promise<Finding[]> {
  const { checkSceneMap } = await import('./read-scene-map.ts');
  return checkSceneMap(bytes, file, { maxBytes: maxSceneMapBytes });
}
