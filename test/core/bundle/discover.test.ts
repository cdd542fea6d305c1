import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { type BundleCandidate, discoverBundles, loadBundle } from '../../../src/core/bundle/discover.ts';
import type { SourceBundle } from '../../../src/core/bundle/source-bundle.ts';
import { validateBundle, withDigests } from '../../../src/core/bundle/validate-bundle.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { asWaybillError, WaybillError } from '../../../src/core/lib/errors.ts';
import { bytesBody } from '../../../src/core/storage/body.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { sceneMapText } from '../../fixtures/scene-map.ts';
import { manifestOf } from '../../fixtures/tar.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const source = { backend: 'local' as const, id: '/srv' };

async function memory(files: Record<string, string>): Promise<Storage> {
  const storage = memoryStorage({ flavour: 'files' });
  for (const [key, text] of Object.entries(files))
    await storage.write(listedKey(key), bytesBody(text), { mode: 'replace' });
  return storage;
}

async function only(storage: Storage): Promise<BundleCandidate> {
  const { candidates } = await discoverBundles(storage);
  return candidates[0]!;
}

t.test('finds bundles at any depth, sorted, and does not search inside them', async (t) => {
  const storage = await memory({
    'b/manifest.json': manifestOf(['x']),
    'a/deep/er/manifest.json': manifestOf(['x']),
    'a/deep/er/inner/manifest.json': manifestOf(['x']),
    'B/manifest.json': manifestOf(['x']),
    'empty/readme.txt': '',
    '.publisher.tmp/x/manifest.json': manifestOf(['x']),
    '.cache/manifest.json': manifestOf(['x']),
  });
  const { candidates, invalid, warnings } = await discoverBundles(storage);
  t.same(
    candidates.map(({ path, directory }) => [path, directory]),
    [
      ['B', 'B'],
      ['a/deep/er', 'a/deep/er'],
      ['b', 'b'],
    ],
  );
  t.same(invalid, []);
  t.match(warnings, [{ code: 'dot_directory_skipped', file: '.cache' }]);
  t.equal(warnings.length, 1, 'names of the publisher are skipped without a warning');
});

t.test('a root with a manifest is the only bundle', async (t) => {
  const { candidates } = await discoverBundles(
    await memory({ 'manifest.json': manifestOf(['x']), 'sub/manifest.json': manifestOf(['x']) }),
  );
  t.match(candidates, [{ path: '.', directory: '' }]);
  t.equal(candidates.length, 1);
});

t.test('an invalid manifest or an unsafe path affects only its own bundle', async (t) => {
  const { candidates, invalid } = await discoverBundles(
    await memory({
      'bad/manifest.json': '{',
      'a\\b/manifest.json': manifestOf(['x']),
      'good/manifest.json': manifestOf(['x']),
    }),
  );
  t.same(
    candidates.map(({ path }) => path),
    ['good'],
  );
  t.match(invalid, [
    { path: 'a\\b', error: { code: 'invalid_bundle', message: /backslash/ } },
    {
      path: 'bad',
      error: { code: 'invalid_bundle', findings: [{ file: 'bad/manifest.json', line: 1, column: 2 }] },
    },
  ]);
});

t.test('links and special entries are not followed', async (t) => {
  const root = t.testdir({ real: { 'manifest.json': manifestOf(['x']) }, dir: {} });
  symlinkSync(path.join(root, 'real'), path.join(root, 'linked'));
  symlinkSync(path.join(root, 'real/manifest.json'), path.join(root, 'dir/manifest.json'));
  const { candidates, warnings } = await discoverBundles(await localStorage(root));
  t.same(
    candidates.map(({ path }) => path),
    ['real'],
  );
  t.match(warnings, [
    { code: 'link_skipped', file: 'dir/manifest.json' },
    { code: 'link_skipped', file: 'linked' },
  ]);
});

t.test('a failed listing fails the discovery', async (t) => {
  const storage = await memory({ 'a/manifest.json': manifestOf(['x']), 'b/c/x': '' });
  const failing: Storage = delegate(storage, {
    async *list(directory, options) {
      if (directory === 'b/c') throw new WaybillError('storage_transient', 'connection lost');
      yield* storage.list(directory, options);
    },
  });
  await t.rejects(discoverBundles(failing), { code: 'storage_transient' });
});

t.test('a complete bundle is loaded without reading its files', async (t) => {
  const storage = await memory({
    'm/manifest.json': manifestOf(['a', { path: 'd/b', size: 3, digest: digestOf('abc') }], { name: 'n' }),
    'm/a': 'xy',
    'm/d/b': 'abc',
  });
  const candidate = await only(storage);
  const unread: Storage = delegate(storage, { read: () => t.fail('read') as never });
  const bundle = await loadBundle(unread, candidate, source);
  t.match(bundle, {
    identity: { ...source, path: 'm' },
    path: 'm',
    name: 'n',
    warnings: { length: 0 },
  });
  t.same(
    bundle.files.map(({ path, size, digest }) => [path, size, digest]),
    [
      ['a', 2, null],
      ['d/b', 3, digestOf('abc')],
    ],
  );
});

t.test('reports all defects of a bundle together', async (t) => {
  const root = t.testdir({
    'manifest.json': manifestOf(['gone', { path: 'size', size: 9 }, 'link', 'linked/x', 'dir', 'ok']),
    size: 'x',
    ok: 'x',
    dir: { y: '' },
  });
  writeFileSync(path.join(root, 'dir/z'), '');
  symlinkSync('ok', path.join(root, 'link'));
  mkdirSync(path.join(root, 'real'));
  symlinkSync('real', path.join(root, 'linked'));
  const storage = await localStorage(root);
  const error = asWaybillError(
    await loadBundle(storage, await only(storage), source).catch((thrown: unknown) => thrown),
  );
  t.equal(error.code, 'invalid_bundle');
  t.same(
    error.findings.map(({ code, file, pointer }) => [code, file, pointer]),
    [
      ['file_missing', 'gone', '/files/0'],
      ['size_mismatch', 'size', '/files/1'],
      ['file_is_link', 'link', '/files/2'],
      ['file_is_link', 'linked/x', '/files/3'],
      ['file_missing', 'dir', '/files/4'],
      ['unlisted_files', '.', null],
    ],
  );
});

t.test('counts unlisted files and names some of them', async (t) => {
  const extra = Object.fromEntries(Array.from({ length: 7 }, (_, n) => [`extra${n}`, '']));
  const storage = await memory({
    'manifest.json': manifestOf(['a']),
    a: '',
    '.publisher.json': '',
    ...extra,
  });
  const { warnings } = await loadBundle(storage, await only(storage), source);
  t.match(warnings, [
    {
      severity: 'warning',
      message:
        '7 files are not in the manifest and will not be published: "extra0", "extra1", "extra2", "extra3", "extra4" and 2 more',
    },
  ]);
});

t.test('a file of the kind scene_map must be valid', async (t) => {
  const storageOf = (text: string, more = {}): Promise<Storage> =>
    memory({
      'manifest.json': manifestOf([{ path: 'map.json', kind: 'scene_map', ...more }]),
      'map.json': text,
    });
  const load = async (storage: Storage): Promise<unknown> => loadBundle(storage, await only(storage), source);
  const good = sceneMapText;
  await t.resolves(load(await storageOf(good)));
  const odd = good.replace('"Narrative"', '"Sideways"');
  for (const [text, pointer] of [
    ['no', null],
    ['[]', ''],
    ['{}', ''],
    [odd, '/scenes/0/primary_mode'],
  ] as const)
    await t.rejects(load(await storageOf(text)), {
      code: 'invalid_bundle',
      findings: [{ severity: 'error', file: 'map.json', pointer, line: 1 }],
    });
  const gap = good.replace('"last_segment_id":9', '"last_segment_id":10');
  const rules = async (contentRules: 'warning' | 'error'): Promise<SourceBundle> => {
    const storage = await storageOf(gap);
    return loadBundle(storage, await only(storage), { ...source, sceneMaps: { contentRules } });
  };
  t.match((await rules('warning')).warnings, [{ severity: 'warning', file: 'map.json' }]);
  await t.rejects(
    rules('error'),
    { code: 'invalid_bundle' },
    'content rules apply if the pipeline requires them',
  );
  await t.rejects(load(await storageOf(good, { digest: digestOf('other') })), {
    code: 'invalid_bundle',
    findings: [{ code: 'digest_mismatch' }],
  });
  await t.rejects(load(await storageOf(' '.repeat(16 * 2 ** 20 + 1))), {
    code: 'invalid_bundle',
    findings: [{ code: 'scene_map_too_large' }],
  });
});

t.test('validate reads everything and reports differences', async (t) => {
  const storage = await memory({
    'manifest.json': manifestOf(['ok', { path: 'wrong', digest: digestOf('x') }, 'gone', 'grown']),
    ok: 'a',
    wrong: 'y',
    gone: 'z',
    grown: 'g',
  });
  const bundle = await loadBundle(storage, await only(storage), source);
  await storage.remove(listedKey('gone'));
  await storage.write(listedKey('grown'), bytesBody('gg'), { mode: 'replace' });
  let bytes = 0;
  const findings = await validateBundle(bundle, { onBytes: (count) => void (bytes += count) });
  t.same(
    findings.map(({ code, file }) => [code, file]),
    [
      ['file_missing', 'gone'],
      ['size_mismatch', 'grown'],
      ['digest_mismatch', 'wrong'],
    ],
  );
  t.equal(bytes, 4);
  const unreadable = bundle.files.map((file) => ({ ...file, body: { size: 1, open: () => failing() } }));
  await t.rejects(
    validateBundle({ ...bundle, files: unreadable }),
    { code: 'storage_transient' },
    'a read failure is not a finding',
  );
});

async function* failing(): AsyncGenerator<Uint8Array> {
  throw new WaybillError('storage_transient', 'lost');
}

t.test('computes missing digests once for concurrent callers', async (t) => {
  const storage = await memory({
    'manifest.json': manifestOf(['a', { path: 'b', digest: digestOf('trusted') }]),
    a: 'text',
    b: '',
  });
  let reads = 0;
  const counted: Storage = delegate(storage, { read: (key) => ((reads += 1), storage.read(key)) });
  const bundle = await loadBundle(counted, await only(storage), source);
  const [one, other] = await Promise.all([withDigests(bundle), withDigests(bundle)]);
  t.equal(one, other);
  t.same(
    one.files.map(({ digest }) => digest),
    [digestOf('text'), digestOf('trusted')],
  );
  t.equal(reads, 1);
});

t.test(
  'a file that changes while its digest is computed is an error, and a retry reads it again',
  async (t) => {
    const storage = await memory({ 'manifest.json': manifestOf(['a']), a: 'text' });
    const bundle = await loadBundle(storage, await only(storage), source);
    await storage.write(listedKey('a'), bytesBody('longer text'), { mode: 'replace' });
    await t.rejects(withDigests(bundle), { code: 'body_mismatch' });
    await storage.write(listedKey('a'), bytesBody('text'), { mode: 'replace' });
    await t.resolves(withDigests(bundle));
  },
);

t.test('finds every bundle of any tree, and nothing else (property)', async () => {
  const segment = fc.constantFrom('a', 'b', '.h', 'ü');
  const paths = fc.uniqueArray(
    fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('/')),
    { maxLength: 8 },
  );
  await fc.assert(
    fc.asyncProperty(paths, async (directories) => {
      const { candidates } = await discoverBundles(
        await memory(
          Object.fromEntries(directories.map((each) => [`${each}/manifest.json`, manifestOf(['x'])])),
        ),
      );
      const expected = directories
        .filter((each) => !each.split('/').some((name) => name.startsWith('.')))
        .filter((each) => !directories.some((other) => each.startsWith(`${other}/`)))
        .sort();
      return JSON.stringify(candidates.map(({ path }) => path)) === JSON.stringify(expected);
    }),
  );
});
