import { readFileSync } from 'node:fs';

/** Returns the text of `scene-map.schema.json`, exactly as it is. */
export function sceneMapSchemaText(): string {
  return readFileSync(new URL('scene-map.schema.json', import.meta.url), 'utf8');
}
