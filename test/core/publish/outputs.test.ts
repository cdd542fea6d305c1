import fc from 'fast-check';
import t from 'tap';
import type { SourceBundle } from '../../../src/core/bundle/source-bundle.ts';
import type { OutputRecord } from '../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { planOutputs } from '../../../src/core/publish/outputs.ts';
import type { PlannedOutput } from '../../../src/core/publish/plan.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { owner } from '../../faults/world.ts';
import { sceneMapText } from '../../fixtures/scene-map.ts';
import { bundleOf, bytesOf, everything, find, nothing, options } from '../../support/outputs.ts';

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

t.test('URLs are percent-encoded below the base, and cache control is passed on', async (t) => {
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

t.test('planning reads no bytes if digests are declared and generated outputs are recorded', async (t) => {
  const files = [
    { path: 'a', digest: digestOf('A') },
    { path: 'b', digest: digestOf('B') },
  ];
  let reads = 0;
  const bundle = await bundleOf({ a: 'A', b: 'B' }, { files }, (storage) =>
    delegate(storage, {
      read: (key) => ((reads += 1), storage.read(key)),
    }),
  );
  const first = await planOutputs(bundle, options(everything));
  t.ok(reads > 0, 'the archive is created once to compute its digest');
  reads = 0;
  const second = await planOutputs(bundle, options(everything, { recorded: first.map(recordOf) }));
  t.same(second.map(recordOf), first.map(recordOf));
  t.equal(reads, 0);
  t.ok((await bytesOf(find(second, '42.tar.gz'))).length > 0, 'its bytes are still available');
});

t.test('reuses the record of a generated output only for equal inputs and version', async (t) => {
  const bundle = await bundleOf({ a: 'A' });
  const first = await planOutputs(bundle, options(everything));
  const differing = [{ name: 'other' }, { version: 0 }, { inputs: digestOf('other') }];
  for (const how of differing) {
    const recorded = first.map(recordOf).map((record): OutputRecord => {
      const { generator } = record.generated;
      const generated = { ...record.generated, generator: generator && { ...generator, ...how } };
      return { ...record, digest: digestOf('stale'), size: 7, generated };
    });
    const again = await planOutputs(bundle, options(everything, { recorded }));
    t.same(again.map(recordOf), first.map(recordOf), JSON.stringify(how));
  }
  // A record of the same path that is not of a generated output.
  const recorded = first.map(recordOf).map((record): OutputRecord => {
    const generated = { ...record.generated, generator: null };
    return { ...record, digest: digestOf('stale'), size: 7, generated };
  });
  t.same((await planOutputs(bundle, options(everything, { recorded }))).map(recordOf), first.map(recordOf));
});

t.test('a generated output has the planned digest on every open', async (t) => {
  const bundle = await bundleOf({ 'a/ü.txt': 'hello', 'b.bin': Buffer.alloc(200_000, 'waybill') });
  for (const output of await planOutputs(bundle, options(everything)))
    for (const time of ['first', 'second']) {
      const bytes = await bytesOf(output);
      t.equal(digestOf(bytes), output.digest, `${output.path}, ${time}`);
      t.equal(bytes.length, output.size);
    }
});

t.test('an archive of a changed file is an error', async (t) => {
  const bundle = await bundleOf({ a: 'A' }, { files: [{ path: 'a', digest: digestOf('other') }] });
  await t.rejects(planOutputs(bundle, options({ ...nothing, archive: true })), { code: 'body_mismatch' });
});

t.test('the archive has the name of the path or the bundle, or else is called bundle', async (t) => {
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

t.test('the index lists each folder once, after the files outside of folders', async (t) => {
  const bundle = await bundleOf({
    'a/1': '',
    'a/b/2': '',
    'a/b/3': '',
    'a/z': '',
    'top.txt': '',
    'z/only': '',
  });
  const planned = await planOutputs(bundle, options(everything));
  const page = (await bytesOf(find(planned, 'index.html'))).toString();
  const rows = page.matchAll(/<li class="folder"><bdi>([^<]+)|<a href=".\/([^"]+)" dir/g);
  t.same(
    [...rows].map(([, folder, file]) => folder ?? file),
    ['top.txt', 'a/', 'a/1', 'a/z', 'a/b/', 'a/b/2', 'a/b/3', 'z/', 'z/only'],
  );
});

t.test('the index folds a folder of pictures, which are above the files', async (t) => {
  const bundle = await bundleOf({
    'a/1.png': '',
    'a/2.png': '',
    'b/1.png': '',
    'b/2.txt': '',
    'c/1.png': '',
  });
  const page = (await bytesOf(find(await planOutputs(bundle, options(everything)), 'index.html'))).toString();
  const listed = page.matchAll(/<li class="inside"><a href=".\/([^"]+)"/g);
  t.same(
    [...listed].map(([, file]) => file),
    ['b/1.png', 'b/2.txt'],
  );
  t.match(page, 'a/</bdi> <span class="above">2 files, shown above');
  t.match(page, 'c/</bdi> <span class="above">1 file, shown above');
  const digests = page.matchAll(/<code title="([0-9a-f]{64})">\1<\/code>/g);
  t.equal([...digests].length, 6, 'five pictures and one more file');
});

t.test(
  'the index escapes everything, loads nothing from elsewhere, and links only below itself',
  async (t) => {
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
    const { destination } = options(everything);
    const listed = await planOutputs(
      bundle,
      options(everything, { destination: { ...destination, rootIndex: true } }),
    );
    t.match((await bytesOf(find(listed, 'index.html'))).toString(), 'href="../../index.html"');
  },
);

t.test(
  'the index starts with the scene map and the archive, and shows images that are not large',
  async (t) => {
    const bundle = await bundleOf(
      {
        'm.json': sceneMapText,
        'a.png': 'x',
        'B.JPG': 'y',
        'large.png': Buffer.alloc(9 << 20),
        'a.txt': 'z',
      },
      { files: [{ path: 'm.json', kind: 'scene_map' }, 'a.png', 'B.JPG', 'large.png', 'a.txt'] },
    );
    const outputs = { ...everything, sceneMapPage: true };
    const page = (await bytesOf(find(await planOutputs(bundle, options(outputs)), 'index.html'))).toString();
    const order = [
      'href="./m.html"',
      'Scene map',
      'Download all',
      'src="./B.JPG"',
      'src="./a.png"',
      '>a.txt<',
    ];
    const places = order.map((text) => page.indexOf(text));
    t.notOk(places.includes(-1), places.join());
    t.same(
      places,
      [...places].sort((a, b) => a - b),
    );
    t.notMatch(page, 'src="./large.png"');
    t.match(page, '20 November 2026, 01:02 UTC');
    t.match(page, 'datetime="2026-11-20T01:02:03.000Z"');
  },
);

t.test('a generated output never replaces a listed file', async (t) => {
  for (const [name, outputs, message] of [
    [
      'SHA256SUMS',
      { ...nothing, checksums: true },
      /"web" generates "SHA256SUMS" \(outputs\.checksums\), but the bundle has "SHA256SUMS"; set outputs\.checksums to false there/,
    ],
    [
      'Index.HTML',
      { ...nothing, index: true },
      /"web" generates "index\.html" \(outputs\.index\), but the bundle has "Index\.HTML"; set outputs\.index to auto or false there, or remove the file/,
    ],
    [
      '42.tar.gz/x',
      { ...nothing, archive: true },
      /generates "42\.tar\.gz" \(outputs\.archive\), but the bundle has "42\.tar\.gz\/x"/,
    ],
  ] as const) {
    const bundle = await bundleOf({ [name]: 'x' });
    await t.rejects(planOutputs(bundle, options(outputs)), {
      ...{ code: 'invalid_bundle', message },
      findings: [{ severity: 'error', code: 'generated_path_taken', file: name }],
    });
    await t.resolves(planOutputs(bundle, options(nothing)), 'if disabled, there is no collision');
  }
});

t.test('rejects two generated outputs of the same name', async (t) => {
  const bundle = await bundleOf(
    { 'index.json': sceneMapText },
    { files: [{ path: 'index.json', kind: 'scene_map' }] },
  );
  await t.rejects(planOutputs(bundle, options({ ...nothing, index: true, sceneMapPage: true })), {
    message:
      /generates "index\.html" twice \(outputs\.scene_map_page and outputs\.index\); set outputs\.index to auto/,
  });
  const planned = await planOutputs(bundle, options({ ...nothing, index: 'auto', sceneMapPage: true }));
  t.equal(find(planned, 'index.html').kind, 'scene_map_page');
});

t.test('outputs.index: auto generates an index only for a bundle without index.html', async (t) => {
  const outputs = { ...nothing, index: 'auto' } as const;
  const kindOf = async (...names: string[]): Promise<string | undefined> => {
    const bundle = await bundleOf(Object.fromEntries(names.map((name) => [name, 'x'])));
    const planned = await planOutputs(bundle, options(outputs));
    return planned.find(({ path }) => path.toLowerCase() === 'index.html')?.kind;
  };
  t.equal(await kindOf('style.css'), 'index');
  t.equal(await kindOf('index.html', 'style.css'), 'file');
  t.equal(await kindOf('INDEX.html'), 'file', 'a file system may be case-insensitive');
  t.equal(await kindOf('index.html/page.txt'), undefined, 'a directory has the name');
  t.equal(await kindOf('docs/index.html'), 'index', 'only the root counts');
});

t.test('each scene map gets a page next to it, which is reused', async (t) => {
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
  const html = (await bytesOf(page!)).toString();
  t.match(html, /<!doctype html>[^]*All of it/i);
  t.notMatch(html, 'index.html', 'there is no index to link to');
  const both = await planOutputs(bundle, options({ ...nothing, index: true, sceneMapPage: true }));
  t.match((await bytesOf(find(both, 'maps/scenes.html'))).toString(), 'href="../index.html"');
});

t.test('planning is deterministic, whatever the order of the manifest (property)', async () => {
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
});
