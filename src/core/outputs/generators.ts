import { gzip } from '../bundle/archive/gzip.ts';
import { type TarFile, writeTar } from '../bundle/archive/tar-writer.ts';
import { manifestName, signatureName } from '../bundle/manifest.ts';
import { invalidBundle } from '../bundle/source-bundle.ts';
import type { DigestedFile } from '../bundle/validate-bundle.ts';
import { hexOf } from '../lib/digest.ts';
import { dateOf } from '../lib/instant.ts';
import { ancestorsOf, compareCodeUnits } from '../lib/paths.ts';
import { maxSceneMapBytes, sceneMapKind } from '../scene-map/check-in-bundle.ts';
import { nameOf } from '../storage/key.ts';
import {
  archiveName,
  checksumsName,
  checksumsText,
  digestInputs,
  type GeneratedFile,
  type Generator,
  type GeneratorInput,
  indexName,
  lazyBytes,
  sceneMapPageName,
} from './generator.ts';
import { indexGenerator } from './index-page.ts';
import { attestationGenerator, signatureGenerator } from './signature.ts';

/**
 * Makes a tar.gz of the whole bundle, which can be uploaded as a bundle again. It contains the original
 * `manifest.json` and its signature, followed by the listed files. The archive is never stored, but made each
 * time it is opened.
 */
const archiveGenerator: Generator = {
  name: 'archive',
  version: 2,
  setting: 'archive',
  describe: async ({ bundle }) => {
    const files = filesOf(bundle);
    return [
      {
        path: archiveName(bundle),
        kind: 'archive',
        contentType: 'application/gzip',
        inputs: digestInputs(
          files.map(({ path, digest }) => [path, digest]),
          bundle.created,
        ),
        open: () => gzip(writeTar(files, dateOf(bundle.created))),
      },
    ];
  },
};

function filesOf({ manifestFile, signatureFile = null, files }: GeneratorInput['bundle']): TarFile[] {
  const sorted = [...files].sort((a, b) => compareCodeUnits(a.path, b.path));
  const signature = signatureFile === null ? [] : [{ path: signatureName, ...signatureFile }];
  return [{ path: manifestName, ...manifestFile }, ...signature, ...sorted];
}

/**
 * Makes a `SHA256SUMS` file for `sha256sum -c`. It lists the files of the bundle, and all outputs generated
 * so far. Names never have to be escaped, since backslashes and line breaks are not allowed in paths.
 */
const checksumsGenerator: Generator = {
  name: 'checksums',
  version: 1,
  setting: 'checksums',
  describe: async (input) => [
    {
      path: checksumsName,
      kind: 'checksums',
      contentType: 'text/plain; charset=utf-8',
      inputs: digestInputs(checksummedFiles(input)),
      open: lazyBytes(() => checksumsText(input)),
    },
  ],
};

function checksummedFiles({ bundle, siblings }: GeneratorInput): [path: string, hex: string][] {
  return [...bundle.files, ...siblings]
    .map(({ path, digest }): [string, string] => [path, hexOf(digest)])
    .sort(([a], [b]) => compareCodeUnits(a, b));
}

/**
 * Makes an HTML page next to each scene map in the bundle, such as `maps/scenes.html` for `maps/scenes.json`.
 */
const sceneMapPageGenerator: Generator = {
  name: 'scene_map_page',
  version: 7,
  setting: 'sceneMapPage',
  describe: async ({ bundle, hasIndex }) =>
    bundle.files.filter(({ kind }) => kind === sceneMapKind).map((file) => pageOf(file, hasIndex)),
};

function pageOf(file: DigestedFile, hasIndex: boolean): GeneratedFile {
  return {
    path: sceneMapPageName(file.path),
    kind: 'scene_map_page',
    contentType: 'text/html; charset=utf-8',
    inputs: digestInputs(file.path, file.digest, hasIndex),
    async *open() {
      yield Buffer.from(await render(file, hasIndex));
    },
  };
}

async function render(file: DigestedFile, hasIndex: boolean): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.body.open()) chunks.push(chunk);
  const { readSceneMap } = await import('../scene-map/read-scene-map.ts');
  const { renderSceneMapPage } = await import('../scene-map/page.ts');
  const { map, findings } = readSceneMap(Buffer.concat(chunks), file.path, { maxBytes: maxSceneMapBytes });
  if (map === null) throw invalidBundle(`"${file.path}"`, findings);
  return renderSceneMapPage(map, {
    findings,
    documentHref: encodeURIComponent(nameOf(file.path)),
    ...(hasIndex ? { bundleHref: `${'../'.repeat([...ancestorsOf(file.path)].length)}${indexName}` } : {}),
  });
}

/** A generator can see the outputs of those before it, so the checksums cover all other outputs. */
export const generators: readonly Generator[] = [
  archiveGenerator,
  sceneMapPageGenerator,
  indexGenerator,
  checksumsGenerator,
  signatureGenerator,
  attestationGenerator,
];
