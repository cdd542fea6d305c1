import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { gzip } from '../../../../src/core/bundle/archive/gzip.ts';
import { packDirectory, type PackOptions } from '../../../../src/core/bundle/pack/pack-directory.ts';
import { parsePackSettings } from '../../../../src/core/bundle/pack/pack-settings.ts';
import {
  idempotencyKeyOf,
  openPackedFile,
  type PackedBundle,
} from '../../../../src/core/bundle/pack/packed-bundle.ts';
import { stageUpload } from '../../../../src/core/bundle/stage-upload.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { asWaybillError, type WaybillError } from '../../../../src/core/lib/errors.ts';
import { sceneMapText } from '../../../fixtures/scene-map.ts';

const created = '2026-11-20T01:02:03Z';
const settings = (more: Parameters<typeof parsePackSettings>[0] = {}): PackOptions =>
  parsePackSettings({ created, ...more });

interface WrittenManifest {
  created: string;
  name?: string;
  metadata?: object;
  files: { path: string; size: number; digest: string; kind?: string; content_type?: string }[];
}

const manifestIn = ({ manifest }: PackedBundle): WrittenManifest =>
  JSON.parse(manifest.toString()) as WrittenManifest;

const pathsIn = (bundle: PackedBundle): string[] => manifestIn(bundle).files.map((file) => file.path);

async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

async function refusal(packing: Promise<unknown>): Promise<WaybillError> {
  return packing.then(
    () => t.fail('it was packed') as never,
    (error: unknown) => asWaybillError(error),
  );
}

t.test('gzip: restores the input, whatever its chunks', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.uint8Array({ maxLength: 40 }), fc.integer({ min: 1, max: 4000 })), {
        maxLength: 30,
      }),
      fc.integer({ min: 1, max: 5000 }),
      async (runs, step) => {
        const bytes = Buffer.concat(runs.flatMap(([run, times]) => Array.from({ length: times }, () => run)));
        async function* cut(size: number): AsyncGenerator<Uint8Array> {
          for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
        }
        const packed = await bytesOf(gzip(cut(Math.max(step, bytes.length >> 8))));
        t.ok(gunzipSync(packed).equals(bytes));
        t.ok(packed.equals(await bytesOf(gzip(cut(bytes.length + 1)))));
      },
    ),
    { numRuns: 20 },
  );
  t.equal(gunzipSync(await bytesOf(gzip(Readable.from([])))).length, 0);
});

t.test(
  'a directory is packed to the same bytes, whatever its times and modes, and with any Node.js',
  async (t) => {
    const text = 'the same words again and again, '.repeat(9000);
    const place = t.testdir({ site: { 'index.html': '<p>', deep: { 'words.txt': text, 'z.bin': '' } } });
    const site = path.join(place, 'site');
    const bundle = await packDirectory(site, settings({ name: 'n/m', metadata: { by: 'me' } }));
    t.match(bundle, { isNew: true, name: 'n/m', files: 3, bytes: 3 + text.length, warnings: { length: 0 } });
    t.same(manifestIn(bundle), {
      schema_version: 1,
      name: 'n/m',
      created: '2026-11-20T01:02:03.000Z',
      metadata: { by: 'me' },
      files: [
        { path: 'deep/words.txt', size: text.length, digest: digestOf(text) },
        { path: 'deep/z.bin', size: 0, digest: digestOf('') },
        { path: 'index.html', size: 3, digest: digestOf('<p>') },
      ],
    });
    let read = 0;
    const archive = await bytesOf(bundle.open((count) => (read += count)));
    t.equal(read, bundle.tarBytes);
    t.equal(gunzipSync(archive).length, bundle.tarBytes);
    // As in this version: another Node.js, zlib or processor makes the same bytes. See `archiveForm`.
    t.equal(digestOf(archive), 'sha256:f86316fb47bd6e15311ffeb27662df49e332d81c2002e93d81268588efac8430');

    for (const [index, file] of ['index.html', 'deep/words.txt'].entries())
      utimesSync(path.join(site, file), 1000 + index, 2000 + index);
    execFileSync('chmod', ['700', path.join(site, 'index.html')]);
    const again = await packDirectory(site, settings({ name: 'n/m', metadata: { by: 'me' } }));
    t.ok(archive.equals(await bytesOf(again.open())));

    const staged = await stageUpload({
      input: again.open(),
      directory: path.join(place, 'staged'),
      limits: { maxUploadSize: 2 ** 24, maxFiles: 10 },
      signal: new AbortController().signal,
    });
    t.match(staged, { files: 3, bundlePath: 'n/m', contentDigest: bundle.contentDigest });

    const file = path.join(place, 'a.tar.gz');
    writeFileSync(file, archive);
    const found = await openPackedFile(file);
    t.match(found, { isCompressed: true, size: archive.length, contentDigest: bundle.contentDigest });
    t.ok((await bytesOf(found.open())).equals(archive));
    t.match(idempotencyKeyOf(bundle.contentDigest), /^waybill-[0-9a-f]{64}$/);
    t.not(idempotencyKeyOf(bundle.contentDigest, '2'), idempotencyKeyOf(bundle.contentDigest));
  },
);

t.test('without its own time, a bundle is as old as its newest file', async (t) => {
  const site = t.testdir({ a: 'A', b: 'B' });
  utimesSync(path.join(site, 'a'), 1_000_000, 1_000_000);
  utimesSync(path.join(site, 'b'), 1_000_000, 2_000_000.5);
  t.equal(manifestIn(await packDirectory(site)).created, '1970-01-24T03:33:20.500Z');
  const byDefault = parsePackSettings({ createdByDefault: created });
  t.equal(manifestIn(await packDirectory(site, byDefault)).created, '2026-11-20T01:02:03.000Z');
});

t.test('a file from the future does not make a bundle that is newer than now', async (t) => {
  const site = t.testdir({ a: 'A', b: 'B' });
  utimesSync(path.join(site, 'a'), 1_000_000, 1_000_000);
  utimesSync(path.join(site, 'b'), 4_070_908_800, 4_070_908_800);
  t.equal(manifestIn(await packDirectory(site)).created, '1970-01-12T13:46:40.000Z');
  utimesSync(path.join(site, 'a'), 4_070_908_800, 4_070_908_800);
  const before = new Date().toISOString();
  const made = manifestIn(await packDirectory(site)).created;
  t.ok(made >= before && made <= new Date().toISOString(), made);
});

t.test('selects files by .gitignore patterns, and skips temporary and version-control files', async (t) => {
  const site = t.testdir({
    '.git': { HEAD: 'ref' },
    '.DS_Store': '',
    'a.html': '',
    'a.map': '',
    'README.md': '',
    assets: { 'b.css': '', 'b.map': '', keep: { 'c.map': '' } },
    node_modules: { x: { 'index.html': '' } },
  });
  const chosen = async (more: PackOptions): Promise<string[]> =>
    pathsIn(await packDirectory(site, { ...settings(), ...more }));
  t.same(await chosen({ exclude: ['node_modules/', '*.map', '!/assets/keep/*.map', 'readme.md'] }), [
    'README.md',
    'a.html',
    'assets/b.css',
    'assets/keep/c.map',
  ]);
  t.same(await chosen({ include: ['*.html', '/assets/'], exclude: ['node_modules'] }), [
    'a.html',
    'assets/b.css',
    'assets/b.map',
    'assets/keep/c.map',
  ]);
  t.same(await chosen({ include: ['.git', 'a.map'], exclude: ['!.git'] }), ['.git/HEAD', 'a.map']);
});

t.test('reports everything that a receiver would reject at once, with locations', async (t) => {
  const place = t.testdir({ site: { 'A.txt': '', 'a.txt': '', '.publisher.json': '{}', sub: {} } });
  const site = path.join(place, 'site');
  symlinkSync('A.txt', path.join(site, 'link'));
  execFileSync('mkfifo', [path.join(site, 'sub', 'pipe')]);
  writeFileSync(path.join(site, 'back\\slash'), '');
  writeFileSync(Buffer.concat([Buffer.from(`${site}/`), Buffer.from([0xff, 0x61])]), '');
  writeFileSync(path.join(site, 'Manifest.json'), '');
  const error = await refusal(packDirectory(site, settings()));
  t.equal(error.code, 'invalid_bundle');
  const codes = Object.fromEntries(
    error.findings.map(({ file, code }) => [path.relative(site, file ?? ''), code]),
  );
  t.same(codes, {
    '.publisher.json': 'unsafe_path',
    'Manifest.json': 'unsafe_path',
    'a.txt': 'path_collision',
    'back\\slash': 'unsafe_path',
    link: 'file_is_link',
    'sub/pipe': 'file_not_regular',
    '\\xffa': 'unsafe_path',
  });
  const excluded = ['.publisher.json', 'Manifest.json', 'a.txt', 'back*', 'link', 'pipe', '?a'];
  t.same(pathsIn(await packDirectory(site, { ...settings(), exclude: excluded })), ['A.txt']);

  t.match(await refusal(packDirectory(site, { ...settings(), exclude: ['*'] })), {
    code: 'invalid_bundle',
    findings: [{ code: 'no_files', file: site }],
  });
  t.match(await refusal(packDirectory(path.join(place, 'gone'))), { code: 'usage' });
  t.match(await refusal(packDirectory(path.join(site, 'A.txt'))), { code: 'usage' });
  for (const wrong of [{ name: '../up' }, { created: 'yesterday' }])
    t.throws(() => parsePackSettings(wrong), { code: 'usage' });
});

t.test('followed links are packed as their targets, with or without a manifest', async (t) => {
  const top = t.testdir({ site: { 'index.html': 'home' }, media: { 'logo.svg': '<svg/>' } });
  const site = path.join(top, 'site');
  symlinkSync('index.html', path.join(site, 'home.html'));
  symlinkSync(path.join(top, 'media'), path.join(site, 'media'));
  t.match(await refusal(packDirectory(site, settings())), {
    findings: [{ file: path.join(site, 'home.html'), message: /--links follow/ }, {}],
  });
  const paths = ['home.html', 'index.html', 'media/logo.svg'];
  const bundle = await packDirectory(site, settings({ links: 'follow' }));
  t.same(pathsIn(bundle), paths);
  const files = mkdtempSync(path.join(top, 'packed-'));
  execFileSync('tar', ['-xzf', '-', '-C', files], { input: await bytesOf(bundle.open()) });
  t.same(
    paths.map((name) => readFileSync(path.join(files, name), 'utf8')),
    ['home', 'home', '<svg/>'],
  );
  writeFileSync(path.join(site, 'manifest.json'), bundle.manifest);
  t.match(await refusal(packDirectory(site)), { message: /home\.html.*links: follow/ });
  t.same(pathsIn(await packDirectory(site, { links: 'follow' })), paths);
});

t.test('a file that changes after it was measured ends the archive with an error', async (t) => {
  const site = t.testdir({ a: 'A', b: 'B' });
  const bundle = await packDirectory(site, settings());
  writeFileSync(path.join(site, 'b'), 'C');
  await t.rejects(bytesOf(bundle.open()), { code: 'body_mismatch', message: /"b"/ });
});

t.test('compares an existing manifest with every byte, and uses it unchanged', async (t) => {
  const files = [{ path: 'a', digest: digestOf('A') }, 'b'];
  const text = JSON.stringify({ created, files, metadata: { theirs: 1 } });
  const site = t.testdir({ 'manifest.json': text, a: 'A', b: 'B', c: 'C' });
  const bundle = await packDirectory(site);
  t.equal(bundle.manifest.toString(), text);
  t.match(bundle, { isNew: false, files: 2, warnings: [{ code: 'unlisted_files', file: site }] });
  t.match(await refusal(packDirectory(site, settings())), { code: 'usage', hint: /--renew/ });

  const archive = path.join(t.testdirName, 'x.tar');
  writeFileSync(archive, gunzipSync(await bytesOf(bundle.open())));
  t.match(await openPackedFile(archive), { isCompressed: false, contentDigest: bundle.contentDigest });
  rmSync(archive);

  writeFileSync(path.join(site, 'a'), 'X');
  rmSync(path.join(site, 'b'));
  t.match(await refusal(packDirectory(site)), {
    code: 'invalid_bundle',
    findings: [
      { code: 'unlisted_files' },
      { code: 'file_missing', file: path.join(site, 'b'), pointer: '/files/1' },
      { code: 'digest_mismatch', file: path.join(site, 'a') },
    ],
  });

  writeFileSync(path.join(site, 'manifest.json'), '{"created": 1,\n "files": []}');
  const { findings } = await refusal(packDirectory(site));
  t.same(
    findings.map(({ file, line }) => [file, line]),
    [
      [path.join(site, 'manifest.json'), 1],
      [path.join(site, 'manifest.json'), 2],
    ],
  );
  rmSync(path.join(site, 'manifest.json'));
  mkdirSync(path.join(site, 'manifest.json'));
  t.match(await refusal(packDirectory(site)), { findings: [{ code: 'file_not_regular' }] });
});

t.test('--renew keeps all parts of a manifest that do not describe bytes', async (t) => {
  const former = {
    name: 'n',
    created: '2020-01-01T00:00:00Z',
    files: [
      'gone',
      { path: 'map.json', size: 1, kind: 'scene_map', owner: 'us' },
      { path: 'a', content_type: 'text/x' },
    ],
    metadata: { a: 1 },
    ours: true,
  };
  const map = sceneMapText;
  const site = t.testdir({ 'manifest.json': JSON.stringify(former), 'map.json': map, a: 'A', b: 'B' });
  const bundle = await packDirectory(site, { ...settings(), renew: true });
  t.same(manifestIn(bundle), {
    name: 'n',
    created: '2026-11-20T01:02:03.000Z',
    metadata: { a: 1 },
    ours: true,
    schema_version: 1,
    files: [
      { path: 'a', content_type: 'text/x', size: 1, digest: digestOf('A') },
      { path: 'b', size: 1, digest: digestOf('B') },
      {
        path: 'map.json',
        size: Buffer.byteLength(map),
        kind: 'scene_map',
        owner: 'us',
        digest: digestOf(map),
      },
    ],
  });
  writeFileSync(path.join(site, 'b'), '{}');
  const error = await refusal(packDirectory(site, { ...settings(), renew: true, sceneMaps: ['b'] }));
  t.match(error.findings[0], { file: path.join(site, 'b'), severity: 'error' });
});

t.test('rejects an archive without a bundle', async (t) => {
  const place = t.testdir({ empty: '', text: 'no archive' });
  t.match(await refusal(openPackedFile(path.join(place, 'gone'))), {
    code: 'usage',
    message: /gone" cannot be read: the file does not exist$/,
  });
  t.match(await refusal(openPackedFile(path.join(place, 'empty'))), { code: 'malformed_archive' });
  t.match(await refusal(openPackedFile(path.join(place, 'text'))), { code: 'malformed_archive' });
  execFileSync('tar', ['-cf', path.join(place, 'bare.tar'), '-C', place, 'text']);
  t.match(await refusal(openPackedFile(path.join(place, 'bare.tar'))), {
    code: 'invalid_bundle',
    findings: [{ code: 'manifest_missing' }],
  });
});
