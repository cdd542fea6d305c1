import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { sceneMapText } from '../../fixtures/scene-map.ts';
import t from 'tap';
import { discoverBundles, loadBundle } from '../../../src/core/bundle/discover.ts';
import type { SourceBundle } from '../../../src/core/bundle/source-bundle.ts';
import { stageUpload } from '../../../src/core/bundle/staging.ts';
import type { OutputRecord } from '../../../src/core/catalog/catalog.ts';
import { digestOf, hexOf } from '../../../src/core/digest.ts';
import { planOutputs, type OutputsOptions } from '../../../src/core/publish/outputs.ts';
import type { PlannedOutput } from '../../../src/core/publish/plan.ts';
import { bytesBody } from '../../../src/core/storage/body.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { memoryStorage } from '../../support/memory-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { inChunks, manifestOf } from '../../fixtures/tar.ts';

const owner = { pipelineId: 'maps', destinationId: 'web' };
const nothing = { checksums: false, archive: false, index: false, sceneMapPage: false };
const everything = { ...nothing, checksums: true, archive: true, index: true };

function options(
  outputs: OutputsOptions['destination']['outputs'],
  more: Partial<OutputsOptions> = {},
): OutputsOptions {
  return {
    owner,
    destination: { outputs, publicBaseUrl: null, cacheControl: null, mapping: 'preserve_relative' },
    destinationPath: 's/42',
    recorded: [],
    ...more,
  };
}

async function bundleOf(
  files: Record<string, string | Buffer>,
  manifest: Record<string, unknown> = {},
  wrap: (storage: Storage) => Storage = (s) => s,
): Promise<SourceBundle> {
  const storage = memoryStorage({ flavour: 'files' });
  const all = { 'manifest.json': manifestOf(Object.keys(files), manifest), ...files };
  for (const [name, text] of Object.entries(all))
    await storage.write(listedKey(`s/42/${name}`), bytesBody(text), { mode: 'replace' });
  const { candidates, invalid } = await discoverBundles(storage);
  if (candidates[0] === undefined) throw invalid[0]?.error ?? new Error('no bundle');
  return loadBundle(wrap(storage), candidates[0], { backend: 'local', id: '/srv' });
}

async function bytesOf(output: PlannedOutput): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of output.body.open()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function recordOf({
  path,
  kind,
  digest,
  size,
  generated,
  url,
  source,
  owner: by,
}: PlannedOutput): OutputRecord {
  return {
    path,
    kind,
    digest,
    size,
    generated,
    url,
    source,
    owner: by,
    updatedAt: '2026-11-20T00:00:00.000Z',
  };
}
const find = (planned: PlannedOutput[], name: string): PlannedOutput =>
  planned.find(({ path }) => path === name)!;

t.test('listed files become outputs, sorted, with their content types', async (t) => {
  const files = [
    'b.txt',
    'a.json',
    'Z.html',
    'noext',
    { path: 'c.bin', content_type: 'image/x-own', kind: 'special' },
  ];
  const bundle = await bundleOf(
    { 'b.txt': '1', 'a.json': '2', 'Z.html': '3', noext: '4', 'c.bin': '5' },
    { files },
  );
  const planned = await planOutputs(bundle, options(nothing));
  t.same(
    planned.map(({ path, kind, generated: { contentType } }) => [path, kind, contentType]),
    [
      ['Z.html', 'file', 'text/html; charset=utf-8'],
      ['a.json', 'file', 'application/json'],
      ['b.txt', 'file', 'text/plain; charset=utf-8'],
      ['c.bin', 'special', 'image/x-own'],
      ['noext', 'file', 'application/octet-stream'],
    ],
  );
  t.match(planned[1], {
    owner,
    source: { backend: 'local', id: '/srv', path: 's/42' },
    digest: digestOf('2'),
    size: 1,
    url: null,
    generated: { cacheControl: null, generator: null },
  });
});

t.test('URLs are percent-encoded below the base, and cache control is carried', async (t) => {
  const bundle = await bundleOf({ 'ü #?%+.txt': 'x' });
  const destination = {
    outputs: nothing,
    publicBaseUrl: 'https://maps.example.org/live/',
    cacheControl: 'no-cache',
    mapping: 'fixed' as const,
  };
  const [output] = await planOutputs(bundle, options(nothing, { destination }));
  t.match(output, {
    url: 'https://maps.example.org/live/s/42/%C3%BC%20%23%3F%25%2B.txt',
    generated: { cacheControl: 'no-cache' },
  });
  const [atRoot] = await planOutputs(bundle, options(nothing, { destination, destinationPath: '.' }));
  t.equal(atRoot?.url, 'https://maps.example.org/live/%C3%BC%20%23%3F%25%2B.txt');
});

t.test(
  'a plan whose digests are declared and whose generated outputs are recorded reads no byte',
  async (t) => {
    const files = [
      { path: 'a', digest: digestOf('A') },
      { path: 'b', digest: digestOf('B') },
    ];
    let reads = 0;
    const bundle = await bundleOf({ a: 'A', b: 'B' }, { files }, (storage) => ({
      ...storage,
      read: (key) => ((reads += 1), storage.read(key)),
    }));
    const first = await planOutputs(bundle, options(everything));
    t.ok(reads > 0, 'the archive is made once to know its digest');
    reads = 0;
    const second = await planOutputs(bundle, options(everything, { recorded: first.map(recordOf) }));
    t.same(second.map(recordOf), first.map(recordOf));
    t.equal(reads, 0);
    t.ok((await bytesOf(find(second, '42.tar.gz'))).length > 0, 'and its bytes can still be had');
    const stale = first.map(recordOf).map((record) => ({
      ...record,
      generated: {
        ...record.generated,
        generator: record.generated.generator && { ...record.generated.generator, version: 0 },
      },
    }));
    await planOutputs(bundle, options(everything, { recorded: stale }));
    t.ok(reads > 0, 'another version is made anew');
  },
);

t.test('what is promised of a generated output is what its body gives, every time', async (t) => {
  const bundle = await bundleOf({ 'a/ü.txt': 'hello', 'b.bin': Buffer.alloc(200_000, 'waybill') });
  for (const output of await planOutputs(bundle, options(everything)))
    for (const time of ['first', 'second']) {
      const bytes = await bytesOf(output);
      t.equal(digestOf(bytes), output.digest, `${output.path}, ${time}`);
      t.equal(bytes.length, output.size);
    }
});

t.test('SHA256SUMS passes sha256sum -c over everything else', async (t) => {
  const bundle = await bundleOf({ 'a/ü b.txt': 'hello', ' lead': 'x', '*star': 'y' });
  const planned = await planOutputs(bundle, options(everything));
  const root = t.testdir({});
  for (const output of planned) {
    mkdirSync(path.dirname(path.join(root, output.path)), { recursive: true });
    writeFileSync(path.join(root, output.path), await bytesOf(output));
  }
  const said = execFileSync('sha256sum', ['--strict', '-c', 'SHA256SUMS'], { cwd: root, encoding: 'utf8' });
  t.equal(said.match(/: OK$/gm)?.length, planned.length - 1);
  t.match((await bytesOf(find(planned, 'SHA256SUMS'))).toString(), `${hexOf(digestOf('x'))}   lead\n`);
});

t.test(
  'the archive is read by tar, is itself an upload, and is the same whatever the order and chunks of the source',
  async (t) => {
    const name = `${'long/'.repeat(40)}${'ä'.repeat(100)}.txt`;
    const files = { b: 'B', [name]: 'deep', 'a.bin': Buffer.alloc(300_001, 'x y z') };
    const bundle = await bundleOf(files, { files: Object.keys(files), name: 'n/m' });
    const archive = find(await planOutputs(bundle, options({ ...nothing, archive: true })), '42.tar.gz');
    const bytes = await bytesOf(archive);
    const root = t.testdir({});
    writeFileSync(path.join(root, 'a.tar.gz'), bytes);
    const listing = execFileSync(
      'tar',
      ['--numeric-owner', '--utc', '--quoting-style=literal', '-tvzf', 'a.tar.gz'],
      { cwd: root, encoding: 'utf8' },
    )
      .trim()
      .split('\n');
    t.same(
      listing.map((line) =>
        line.replace(/\s+/g, ' ').split(' ').slice(0, 5).join(' ').replace(/ \d+ /, ' N '),
      ),
      Array.from({ length: 4 }, () => '-rw-r--r-- 0/0 N 2026-11-20 01:02'),
    );
    t.same(
      listing.map((line) => line.slice(line.lastIndexOf(' ') + 1)),
      ['manifest.json', 'a.bin', 'b', name],
    );
    const staged = await stageUpload({
      input: inChunks(bytes),
      directory: path.join(root, 'staged'),
      limits: { maxUploadSize: 2 ** 24, maxFiles: 10 },
      signal: new AbortController().signal,
      pipelineId: 'maps',
    });
    t.equal(staged.files, bundle.files.length);

    const rechunked = {
      ...bundle,
      files: [...bundle.files]
        .reverse()
        .map((file) => ({ ...file, body: { size: file.size, open: () => small(file.body.open()) } })),
    };
    const [again] = await planOutputs(rechunked, options({ ...nothing, archive: true }));
    t.equal(again?.digest, archive.digest);
    t.ok(gunzipSync(bytes).length % 512 === 0);
  },
);

async function* small(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) yield* inChunks(Buffer.from(chunk), 1009);
}

t.test('an archive of a file that changed is an error, not an archive', async (t) => {
  const bundle = await bundleOf({ a: 'A' }, { files: [{ path: 'a', digest: digestOf('other') }] });
  await t.rejects(planOutputs(bundle, options({ ...nothing, archive: true })), { code: 'body_mismatch' });
});

t.test('the archive is called after the path, the name, or just a bundle', async (t) => {
  const bundle = await bundleOf({ a: 'A' });
  const nameFor = async (change: Partial<SourceBundle>): Promise<string | undefined> =>
    (await planOutputs({ ...bundle, ...change }, options({ ...nothing, archive: true }))).find(
      ({ kind }) => kind === 'archive',
    )?.path;
  t.equal(await nameFor({}), '42.tar.gz');
  t.equal(await nameFor({ path: '.', name: 'x/y' }), 'y.tar.gz');
  t.equal(await nameFor({ path: '.' }), 'bundle.tar.gz');
  t.equal(await nameFor({ path: 'x'.repeat(250) }), 'bundle.tar.gz');
});

t.test('the index escapes everything, needs nothing from outside, and links only below itself', async (t) => {
  const nasty = `<img src=x onerror=alert(1)>&"'`;
  const bundle = await bundleOf({ [nasty]: 'x', 'javascript:alert(1)': 'y' }, { name: nasty });
  const page = (
    await bytesOf(find(await planOutputs(bundle, options({ ...everything })), 'index.html'))
  ).toString();
  t.notMatch(page, '<img');
  t.notMatch(page, /<script|https?:|src=x[^ ]*>/i);
  t.match(page, /Content-Security-Policy" content="default-src 'none'/);
  t.match(page, '&lt;img src=x onerror=alert(1)&gt;&amp;&#34;&#39;');
  t.same(
    [...page.matchAll(/href="([^"]*)"/g)].filter(([, href]) => !href!.startsWith('./')),
    [],
  );
  t.match(page, 'href="./42.tar.gz"');
});

t.test('a generated output never takes the place of a listed file', async (t) => {
  for (const [name, outputs, message] of [
    [
      'SHA256SUMS',
      { ...nothing, checksums: true },
      /generated output "checksums" "SHA256SUMS" is listed twice/,
    ],
    [
      'Index.HTML',
      { ...nothing, index: true },
      /generated output "index" "index.html" differs from "Index.HTML"/,
    ],
    ['42.tar.gz/x', { ...nothing, archive: true }, /the listed file "42.tar.gz\/x" lies below "42.tar.gz"/],
  ] as const) {
    const bundle = await bundleOf({ [name]: 'x' });
    await t.rejects(planOutputs(bundle, options(outputs)), { code: 'invalid_bundle', message });
    await t.resolves(planOutputs(bundle, options(nothing)), 'switched off, there is no collision');
  }
});

t.test('each scene map gets a page beside it, made once and then taken from the record', async (t) => {
  const bundle = await bundleOf(
    { 'maps/scenes.json': sceneMapText, a: 'A' },
    { files: [{ path: 'maps/scenes.json', kind: 'scene_map' }, 'a'] },
  );
  const [, page] = await planOutputs(bundle, options({ ...nothing, sceneMapPage: true }));
  t.match(page, {
    path: 'maps/scenes.html',
    kind: 'scene_map_page',
    generated: { contentType: 'text/html; charset=utf-8' },
  });
  t.match((await bytesOf(page!)).toString(), /<!doctype html>[^]*All of it/i);
});

t.test(
  'planning twice gives the same plan, and the order of the manifest does not matter (property)',
  async () => {
    const content = fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.string(), { minKeys: 1, maxKeys: 6 });
    await fc.assert(
      fc.asyncProperty(content, async (files) => {
        const bundle = await bundleOf(files);
        const reversed: SourceBundle = { ...bundle, files: [...bundle.files].reverse() };
        const [one, other] = await Promise.all([
          planOutputs(bundle, options(everything)),
          planOutputs(reversed, options(everything)),
        ]);
        return JSON.stringify(one.map(recordOf)) === JSON.stringify(other.map(recordOf));
      }),
      { numRuns: 40 },
    );
  },
);
