import { readFileSync } from 'node:fs';

/** Returns the unmodified text of `scene-map.schema.json`. */
export function sceneMapSchemaText(): string {
  return readFileSync(new URL('scene-map.schema.json', import.meta.url), 'utf8');
}
