import { readFileSync } from 'node:fs';

/** The text of `scene-map.schema.json`, as it stands in the repository. */
export function sceneMapSchemaText(): string {
  return readFileSync(new URL('scene-map.schema.json', import.meta.url), 'utf8');
}
