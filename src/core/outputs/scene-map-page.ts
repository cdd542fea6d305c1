import type { DigestedFile } from '../bundle/validate-bundle.ts';
import { invalidBundle } from '../bundle/source-bundle.ts';
import { maxSceneMapBytes, sceneMapKind } from '../scene-map/check-in-bundle.ts';
import { nameOf } from '../storage/key.ts';
import { sceneMapPageName } from './generated-names.ts';
import { digestInputs, type GeneratedFile, type Generator } from './generator.ts';

/** An HTML page next to each scene map of the bundle: `maps/scenes.json` gets `maps/scenes.html`. */
export const sceneMapPageGenerator: Generator = {
  name: 'scene_map_page',
  version: 3,
  switchedBy: 'sceneMapPage',
  describe: async ({ bundle }) => bundle.files.filter(({ kind }) => kind === sceneMapKind).map(pageOf),
};

function pageOf(file: DigestedFile): GeneratedFile {
  return {
    path: sceneMapPageName(file.path),
    kind: 'scene_map_page',
    contentType: 'text/html; charset=utf-8',
    inputs: digestInputs(file.path, file.digest),
    async *open() {
      yield Buffer.from(await render(file));
    },
  };
}

async function render(file: DigestedFile): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.body.open()) chunks.push(chunk);
  const { readSceneMap } = await import('../scene-map/read-scene-map.ts');
  const { renderSceneMapPage } = await import('../scene-map/page.ts');
  const { map, findings } = readSceneMap(Buffer.concat(chunks), file.path, { maxBytes: maxSceneMapBytes });
  if (map === null) throw invalidBundle(`"${file.path}"`, findings);
  return renderSceneMapPage(map, { findings, documentHref: encodeURIComponent(nameOf(file.path)) });
}
