import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { rootIndexFiles } from '../../src/core/outputs/root-index.ts';
import { planOutputs } from '../../src/core/publish/outputs.ts';
import { bundleOf, bytesOf, everything, options } from '../support/outputs.ts';
import type { Lifetime, PageSet } from './page-sets.ts';

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  json: 'application/json',
  svg: 'image/svg+xml',
  ico: 'image/svg+xml',
};

/** Returns text that hardly compresses, for files as large as recordings. It is the same in each run. */
function noise(bytes: number): string {
  let seed = 42;
  const next = (): string => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed.toString(36).slice(-5);
  };
  return Array.from({ length: bytes / 5 }, next).join('');
}

/** A distinctive picture. */
function pictureOf(hue: number): string {
  const hills = `<path d="M0 150 Q100 ${60 + (hue % 60)} 200 150 T400 120 V300 H0Z" fill="hsl(${hue} 45% 40%)"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 300"><rect width="400" height="300" fill="hsl(${hue} 60% 85%)"/>${hills}<!-- ${noise(180_000 + hue * 700)} --></svg>`;
}

async function publishedFiles(): Promise<Map<string, Buffer>> {
  const example = await readFile('examples/scene-maps/session-42-findings.json');
  const files = {
    'maps/session-42.json': example,
    'LICENSE.txt': 'Creative Commons Attribution 4.0 International\n'.repeat(30),
    'notes/readme.txt': 'What happened on the stair, seen twice.\n'.repeat(40),
    'notes/what-the-harbour-master-remembers-about-the-night-of-the-wreck.txt':
      'She had seen the lamp go out twice before the ship struck.\n'.repeat(50),
    'pictures/harbour.svg': pictureOf(200),
    'pictures/salt-marsh.svg': pictureOf(110),
    'pictures/stair.svg': pictureOf(20),
    'pictures/the-drowned-library.svg': pictureOf(280),
    'sound/introduction.opus': noise(2_400_000),
  };
  const listed = Object.keys(files).map((path) =>
    path === 'maps/session-42.json' ? { path, kind: 'scene_map' } : path,
  );
  const bundle = await bundleOf(files, { name: 'session-42', files: listed });
  const outputs = { ...everything, sceneMapPage: true };
  const { destination } = options(outputs);
  const planned = await planOutputs(
    bundle,
    options(outputs, { destination: { ...destination, rootIndex: true } }),
  );
  return new Map([
    ...(await Promise.all(planned.map(async (one) => [one.path, await bytesOf(one)] as [string, Buffer]))),
    ...(await rootFiles()),
  ]);
}

/** Like the root of a destination, but below `root/`, next to the bundle. */
async function rootFiles(): Promise<[string, Buffer][]> {
  const listed: [path: string, files: number, bytes: number, published: string, hasMap: boolean][] = [
    ['session-42', 9, 3_310_000, '2026-11-20T17:10:34.334Z', true],
    ['session-41', 12, 4_740_000, '2026-11-13T18:02:11.120Z', true],
    [
      'winter/the-drowned-library-and-what-was-found-on-its-stair',
      ...([31, 18_900_000, '2026-11-08T09:41:50.007Z'] as const),
      true,
    ],
    ['session-40', 8, 2_870_000, '2026-11-06T17:55:02.904Z', true],
    ['session-39', 10, 3_960_000, '2026-10-30T18:20:45.618Z', true],
    ['handouts', 46, 61_500_000, '2026-10-28T07:33:19.442Z', false],
    ['session-38', 7, 2_450_000, '2026-10-23T17:48:27.031Z', true],
    ['winter/prologue', 5, 940_000, '2026-10-11T14:05:38.275Z', false],
    ['guide', 4, 388_000, '2026-09-02T10:26:03.816Z', false],
  ];
  const bundles = listed.map(([path, files, bytes, published, hasMap]) => ({
    ...{ path, outputs: files, bytes, page: `${path}/index.html` },
    ...{ created: `${published.slice(0, 11)}01:02:03.000Z`, published },
    sceneMap: hasMap ? `${path}/maps/scenes.html` : null,
  }));
  const files = await rootIndexFiles({ title: 'maps', identity: ['maps', 'web'], baseUrl: null, bundles });
  return files.map(({ path, text }) => [`root/${path}`, Buffer.from(text)]);
}

/**
 * Serves files like a web server whose site has an icon. A browser may request it at any time, and the
 * published pages leave it to the site.
 */
async function serveFiles(t: Lifetime, files: ReadonlyMap<string, Buffer>): Promise<string> {
  const server = createServer((req, res) => {
    const name = decodeURIComponent(req.url ?? '/').slice(1);
    const body = files.get(name);
    const type = types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
    res.writeHead(body === undefined ? 404 : 200, { 'Content-Type': type }).end(body);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** The pages that are published with a bundle, served by a web server. */
export const publishedPages: PageSet = {
  name: 'published',
  start: async (t) =>
    serveFiles(t, new Map([...(await publishedFiles()), ['favicon.ico', Buffer.from(pictureOf(200))]])),
  pages: [
    { name: 'index', path: 'index.html', inDocs: true },
    {
      name: 'index-with-digests',
      path: 'index.html',
      prepare: (page) => page.getByLabel('Show SHA-256 digests').check(),
    },
    { name: 'root-index', path: 'root/index.html', inDocs: true },
    { name: 'scene-map', path: 'maps/session-42.html', inDocs: true },
    {
      name: 'scene-map-with-filters',
      path: 'maps/session-42.html',
      prepare: async (page) => {
        await page.getByText('Filters', { exact: true }).click();
        await page.locator('#m-combat').uncheck();
      },
    },
  ],
};
