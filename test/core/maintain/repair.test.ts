import fc from 'fast-check';
import t from 'tap';
import type { DestinationConfig, PipelineConfig } from '../../../src/core/config/config.ts';
import { repair } from '../../../src/core/maintain/repair.ts';
import { isInSubset, parseSubset, verify, type VerifyReport } from '../../../src/core/maintain/verify.ts';
import { publishPipeline } from '../../../src/core/publish/publish.ts';
import type { OpenOptions } from '../../../src/core/storage/backend.ts';
import { describeLocation, type StorageLocation } from '../../../src/core/storage/backends.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';
import {
  contextWith,
  destinationOf,
  leftovers,
  otherOwner,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
} from '../../faults/world.ts';
import { type MemoryOptions, memoryStorage } from '../../support/memory-storage.ts';

function at(id: string, outputs = false): DestinationConfig {
  const base = destinationOf('additive', id);
  const location = { backend: 'local', path: `/${id}` } as const;
  return { ...base, location, outputs: { ...base.outputs, checksums: outputs } };
}

const pipeline: PipelineConfig = {
  id: 'maps',
  source: { backend: 'local', path: '/source' },
  sourceId: '/source',
  destinations: [at('web', true), at('mirror')],
  maxWaiting: null,
  retryForMs: null,
  runTimeoutMs: 3_600_000,
  discoveryTimeoutMs: 3_600_000,
  whileRetrying: 'pass',
  schedule: null,
  watch: null,
  sceneMaps: { contentRules: 'warning' },
};
const [destination] = pipeline.destinations as [DestinationConfig];
const files = { 'a.txt': 'a', 'b.txt': 'b', 'sub/c.txt': 'c' };

async function layOut(flavour: MemoryOptions['flavour']) {
  const web = memoryStorage({ flavour });
  /** The mode in which each place was opened, and the places that were closed. */
  const opened: [string, OpenOptions][] = [];
  const closed: string[] = [];
  const places: Record<string, Storage> = {
    '/source': memoryStorage({ flavour: 'files' }),
    '/web': web,
    '/mirror': memoryStorage({ flavour: 'files' }),
  };
  for (const [name, text] of Object.entries(files)) await put(places['/source']!, `bundle/${name}`, text);
  const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: Object.keys(files) };
  await put(places['/source']!, 'bundle/manifest.json', JSON.stringify(manifest));
  const context = {
    ...contextWith(testClock()),
    openStorage: async (location: StorageLocation, options: OpenOptions) => {
      const place = describeLocation(location);
      opened.push([place, options]);
      return { ...(places[place] as Storage), close: async () => void closed.push(place) };
    },
  };
  const published = await publishPipeline(context, pipeline, { dryRun: false, force: false });
  t.equal(published.status, 'ok', JSON.stringify(published));
  const before = await snapshot(web);
  before.delete('bundle/.publisher.json');
  const check = (): Promise<VerifyReport[]> => verify(web, { concurrency: 2 });
  const runRepair = async (dryRun = false, more: Partial<PipelineConfig> & { signal?: AbortSignal } = {}) => {
    const { signal, ...changed } = more;
    const verified = await check();
    opened.length = 0;
    closed.length = 0;
    const target = { pipeline: { ...pipeline, ...changed }, destination, root: web, dryRun };
    return repair({ ...context, ...(signal !== undefined && { signal }) }, target, verified);
  };
  return { places, web, before, check, runRepair, opened, closed };
}

async function damage(web: Storage): Promise<void> {
  await web.remove(listedKey('bundle/a.txt'));
  await put(web, 'bundle/b.txt', 'B');
  await put(web, 'bundle/sub/c.txt', 'longer');
  await put(web, 'bundle/SHA256SUMS', 'forged');
}

for (const flavour of ['files', 'objects'] as const) {
  t.test(`${flavour}: rewrites missing and changed files from the source`, async (t) => {
    const { web, before, check, runRepair } = await layOut(flavour);
    t.same(await runRepair(), [null], 'nothing to repair');
    await damage(web);
    const damaged = await snapshot(web);
    const all = ['SHA256SUMS', 'a.txt', 'b.txt', 'sub/c.txt'].map((path) => ({ path, from: 'source' }));
    t.same(await runRepair(true), [{ repaired: all, unrepaired: [], error: null }]);
    t.same(await snapshot(web), damaged, 'a dry run writes nothing');
    t.same(await runRepair(), [{ repaired: all, unrepaired: [], error: null }]);
    t.match(await check(), [{ differing: { length: 0 }, interrupted: false, error: null }]);
    const files = await snapshot(web);
    t.same(leftovers(files), []);
    files.delete('bundle/.publisher.json');
    t.same(files, before, 'byte for byte as published');
    const state = await stateOf(web);
    t.match(state, { kind: 'valid', catalog: { pending: null, bundles: [{ source: { path: 'bundle' } }] } });
  });

  t.test(
    `${flavour}: copies files that the source no longer has from another destination, if the digest matches`,
    async (t) => {
      const { places, web, check, runRepair } = await layOut(flavour);
      await damage(web);
      const source = places['/source']!;
      await put(source, 'bundle/a.txt', 'newer');
      await put(source, 'bundle/b.txt', 'x');
      await put(places['/mirror']!, 'bundle/b.txt', 'y');
      t.same(await runRepair(), [
        {
          repaired: [
            { path: 'a.txt', from: 'destination "mirror"' },
            { path: 'sub/c.txt', from: 'source' },
          ],
          unrepaired: ['SHA256SUMS', 'b.txt'].map((path) => ({
            path,
            reason: 'neither the source nor another destination of the pipeline has this content',
          })),
          error: null,
        },
      ]);
      t.match(await check(), [{ differing: [{ path: 'SHA256SUMS' }, { path: 'b.txt' }] }]);
      t.equal((await snapshot(web)).get('bundle/b.txt'), 'B', 'unrepairable files stay unchanged');
      await source.remove(listedKey('bundle/manifest.json'));
      const away: Storage = {
        ...source,
        async *list(directory, options) {
          if (directory === '') throw new Error('away');
          yield* source.list(directory, options);
        },
      };
      places['/source'] = away;
      await put(places['/mirror']!, 'bundle/b.txt', 'b');
      t.match(await runRepair(), [{ repaired: [{ path: 'b.txt', from: 'destination "mirror"' }] }]);
    },
  );
}

t.test('outputs of other owners, and bundle paths with an unfinished attempt, stay unchanged', async (t) => {
  const { web, runRepair } = await layOut('files');
  await publishTo(web, { files: { 'theirs.txt': 't' }, as: otherOwner });
  await put(web, 'bundle/theirs.txt', 'T');
  t.match(await runRepair(), [
    {
      repaired: { length: 0 },
      unrepaired: [{ path: 'theirs.txt', reason: 'it belongs to other/web; repair it there' }],
    },
  ]);
  await put(web, 'bundle/a.txt', 'A');
  let isDead = false;
  const orDead = <T>(call: () => Promise<T>): Promise<T> =>
    isDead ? Promise.reject(new Error('the power went')) : call();
  const dying: Storage = {
    ...web,
    remove: (key) => orDead(() => web.remove(key)),
    removeTree: (directory) => orDead(() => web.removeTree(directory)),
    write: (key, body, options) => orDead(() => web.write(key, body, options)),
    rename: (moves) =>
      orDead(async () => {
        await web.rename!(moves);
        // The intent is written last.
        if (moves.some(({ to }) => to.endsWith('.publisher.json'))) isDead = true;
      }),
  };
  await publishTo(dying, { files: { 'theirs.txt': 'tt' }, as: otherOwner });
  t.match(await runRepair(), [
    { repaired: { length: 0 }, error: { code: 'state_conflict', message: /did not finish/ } },
  ]);
  t.equal((await snapshot(web)).get('bundle/a.txt'), 'A');
});

t.test('keeps and reports the existing file if a write fails', async (t) => {
  const { web, places, runRepair } = await layOut('files');
  await damage(web);
  const damaged = await snapshot(web);
  const full: Storage = { ...web, rename: async () => Promise.reject(new Error('no space')) };
  places['/web'] = full;
  const context = {
    ...contextWith(testClock()),
    openStorage: async (location: StorageLocation) => places[describeLocation(location)] as Storage,
  };
  const reports = await repair(
    context,
    { pipeline, destination, root: full, dryRun: false },
    await verify(web, { concurrency: 2 }),
  );
  t.match(reports, [{ repaired: { length: 0 }, error: { message: 'no space' } }]);
  t.same(reports[0]?.repaired, []);
  t.same((await snapshot(web)).get('bundle/b.txt'), damaged.get('bundle/b.txt'));
  t.match(await runRepair(), [{ repaired: { length: 4 }, error: null }], 'and can be repaired later');
});

t.test('the parts of a subset cover all paths once, and never change', async (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9_999 }), fc.string(), fc.string(), (parts, place, path) => {
      const found = Array.from({ length: parts }, (_, index) => ({ part: index + 1, parts })).filter(
        (subset) => isInSubset(subset, place, path),
      );
      t.equal(found.length, 1);
    }),
    { numRuns: 20 },
  );
  t.same(parseSubset('2/7'), { part: 2, parts: 7 });
  t.same(parseSubset('1/1'), { part: 1, parts: 1 });
  t.same(parseSubset('1234/9999'), { part: 1234, parts: 9999 });
  for (const wrong of [
    '',
    '0/7',
    '8/7',
    '1/0',
    '1',
    '1/7/2',
    '-1/7',
    '1.5/7',
    'a/b',
    ' 1/7',
    '1/10000',
    '00001/7',
  ])
    t.equal(parseSubset(wrong), undefined, wrong);
  const named = (place: string, path: string): number =>
    [1, 2, 3, 4, 5, 6, 7].findIndex((part) => isInSubset({ part, parts: 7 }, place, path));
  const spread = new Set(Array.from({ length: 99 }, (_, index) => named('bundle', `file ${index}`)));
  t.equal(spread.size, 7, 'paths are distributed over all parts');
  t.equal(new Set(Array.from({ length: 99 }, (_, index) => named(`bundle ${index}`, 'file'))).size, 7);
  const { web } = await layOut('files');
  const parts = [1, 2, 3].map((part) => verify(web, { concurrency: 2, subset: { part, parts: 3 } }));
  const counted = (await Promise.all(parts)).flat();
  t.equal(
    counted.reduce((sum, { verified }) => sum + verified, 0),
    4,
  );
  for (const { verified, skipped } of counted) t.equal(verified + skipped, 4);
});

t.test('a repair that was suspended past its lease while it read its source writes nothing', async (t) => {
  const { places, web, check } = await layOut('objects');
  await damage(web);
  const damaged = await snapshot(web);
  const clock = testClock();
  let suspendedMs = 0;
  const source = places['/source']!;
  const slow: Storage = {
    ...source,
    async *read(key) {
      const state = await stateOf(web);
      yield* source.read(key);
      if (state.kind === 'valid' && state.catalog.pending !== null) suspendedMs = 200_000;
    },
  };
  const context = {
    ...contextWith({ ...clock, monotonic: () => clock.monotonic() + suspendedMs }),
    openStorage: async () => slow,
  };
  const [report] = await repair(context, { pipeline, destination, root: web, dryRun: false }, await check());
  t.equal(suspendedMs, 200_000, 'it was suspended under its lease');
  t.match(report, { repaired: { length: 0 }, error: { code: 'lease_lost' } });
  const published = (files: ReadonlyMap<string, string>): [string, string][] =>
    [...files].filter(([name]) => !name.includes('.publisher'));
  t.same(published(await snapshot(web)), published(damaged));
});

t.test('sources of a repair are read-only, opened only if needed, and closed', async (t) => {
  const { web, runRepair, opened, closed } = await layOut('files');
  const readOnly = { readOnly: true, mustExist: true, dryRun: true };
  await put(web, 'bundle/a.txt', 'A');
  t.match(await runRepair(), [{ repaired: [{ path: 'a.txt', from: 'source' }] }]);
  t.same(opened, [['/source', readOnly]]);
  t.same(closed, ['/source']);
  await put(web, 'bundle/a.txt', 'A');
  await put(web, 'bundle/b.txt', 'B');
  const uploads = { source: { backend: 'http_upload' } } as unknown as PipelineConfig;
  t.match(await runRepair(false, uploads), [{ repaired: { length: 2 }, unrepaired: { length: 0 } }]);
  t.same(opened, [['/mirror', readOnly]], 'once for both, and never the destination itself');
  t.same(closed, ['/mirror']);
});

t.test('a repair that finds no matching bytes, or is stopped, writes nothing', async (t) => {
  const { places, web, runRepair } = await layOut('files');
  await put(web, 'bundle/a.txt', 'A');
  await put(places['/source']!, 'bundle/a.txt', 'longer than that');
  await put(places['/mirror']!, 'bundle/a.txt', 'x');
  const generation = async (): Promise<number> => {
    const state = await stateOf(web);
    return state.kind === 'valid' ? state.catalog.generation : 0;
  };
  const before = await generation();
  t.match(await runRepair(), [{ repaired: { length: 0 }, unrepaired: [{ path: 'a.txt' }], error: null }]);
  t.equal(await generation(), before, 'no attempt was made');
  await put(places['/mirror']!, 'bundle/a.txt', 'a');
  const stopped = AbortSignal.abort(new Error('SIGTERM'));
  t.match(await runRepair(false, { signal: stopped }), [
    { repaired: { length: 0 }, unrepaired: { length: 0 }, error: { retryable: false } },
  ]);
  t.equal((await snapshot(web)).get('bundle/a.txt'), 'A');
  t.match(await runRepair(), [{ repaired: [{ path: 'a.txt' }], unrepaired: { length: 0 }, error: null }]);
  t.equal(await generation(), before + 1);
});

t.test('uses no bytes of another destination if its catalog is invalid or announces the file', async (t) => {
  const { places, web, runRepair } = await layOut('files');
  const mirror = places['/mirror']!;
  const text = (await snapshot(mirror)).get('bundle/.publisher.json') ?? '';
  const announced = JSON.parse(text) as { outputs: { path: string }[]; pending: unknown };
  await places['/source']!.remove(listedKey('bundle/manifest.json'));
  await put(web, 'bundle/a.txt', 'A');
  const outputs = announced.outputs.filter(({ path }) => path === 'a.txt');
  const pending = {
    ...{ attempt_id: 'x', action: 'upsert_additive', started_at: '2026-11-20T00:00:00.000Z' },
    ...{ owner: { pipeline_id: 'maps', destination_id: 'mirror' }, holder: null, renewals: 0 },
    ...{ outputs, removes: [] },
  };
  for (const state of ['nonsense', JSON.stringify({ ...announced, pending })]) {
    await put(mirror, 'bundle/.publisher.json', state);
    t.match(
      await runRepair(),
      [{ repaired: { length: 0 }, unrepaired: [{ path: 'a.txt' }] }],
      state.slice(0, 20),
    );
  }
  await put(mirror, 'bundle/.publisher.json', text);
  t.match(await runRepair(), [{ repaired: [{ path: 'a.txt', from: 'destination "mirror"' }] }]);
});

t.test('does not overwrite files that were published again after the damage was found', async (t) => {
  const { places, web, check } = await layOut('files');
  await put(web, 'bundle/a.txt', 'A');
  await put(web, 'bundle/b.txt', 'B');
  const verified = await check();
  const later = { ...testClock(), now: () => new Date('2026-11-21T00:00:00Z') };
  let isDone = false;
  const source: Storage = {
    ...places['/source']!,
    async *read(key) {
      yield* places['/source']!.read(key);
      if (isDone || key !== 'bundle/b.txt') return;
      isDone = true;
      await publishTo(web, { files: { 'a.txt': 'a2' } }, later);
    },
  };
  const context = { ...contextWith(testClock()), openStorage: async () => source };
  t.same(await repair(context, { pipeline, destination, root: web, dryRun: false }, verified), [
    {
      repaired: [{ path: 'b.txt', from: 'source' }],
      unrepaired: [{ path: 'a.txt', reason: 'it was published again in the meantime' }],
      error: null,
    },
  ]);
  t.equal((await snapshot(web)).get('bundle/a.txt'), 'a2');
});

t.test('if all files were published again, no attempt is made', async (t) => {
  const { places, web, check } = await layOut('files');
  await put(web, 'bundle/a.txt', 'A');
  const verified = await check();
  const later = { ...testClock(), now: () => new Date('2026-11-21T00:00:00Z') };
  let generation: number | undefined;
  const source: Storage = {
    ...places['/source']!,
    async *read(key) {
      yield* places['/source']!.read(key);
      if (generation !== undefined || key !== 'bundle/a.txt') return;
      await publishTo(web, { files: { 'a.txt': 'a2' } }, later);
      const state = await stateOf(web);
      generation = state.kind === 'valid' ? state.catalog.generation : 0;
    },
  };
  const context = { ...contextWith(testClock()), openStorage: async () => source };
  const [report] = await repair(context, { pipeline, destination, root: web, dryRun: false }, verified);
  t.match(report, { repaired: { length: 0 }, unrepaired: [{ path: 'a.txt' }], error: null });
  t.match(await stateOf(web), { catalog: { generation } });
});

t.test('a repair that is stopped halfway leaves everything unchanged', async (t) => {
  const { places, web, check } = await layOut('files');
  await put(web, 'bundle/a.txt', 'A');
  await put(web, 'bundle/b.txt', 'B');
  const stop = new AbortController();
  const dying: Storage = {
    ...web,
    async write(key, body, options) {
      if (options.mode === 'scratch') stop.abort(new Error('SIGTERM'));
      return web.write(key, body, options);
    },
  };
  const context = {
    ...{ ...contextWith(testClock()), signal: stop.signal },
    openStorage: async (location: StorageLocation) => places[describeLocation(location)] as Storage,
  };
  const [report] = await repair(
    context,
    { pipeline, destination, root: dying, dryRun: false },
    await check(),
  );
  t.match(report, { repaired: { length: 0 }, error: {} });
  t.match((await snapshot(web)).get('bundle/b.txt'), 'B');
});

t.test('uses the first of several places that have the bytes', async (t) => {
  const { places, web, runRepair } = await layOut('files');
  const mirror = places['/mirror']!;
  // Discovery finds this bundle first.
  await put(places['/source']!, 'another/c.txt', 'other');
  const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: ['c.txt'] };
  await put(places['/source']!, 'another/manifest.json', JSON.stringify(manifest));
  await put(web, 'bundle/sub/c.txt', 'C');
  t.match(await runRepair(), [{ repaired: [{ path: 'sub/c.txt', from: 'source' }] }]);
  await places['/source']!.remove(listedKey('bundle/manifest.json'));
  await put(mirror, 'a-broken/.publisher.json', 'nonsense');
  await put(mirror, 'bundle/a.txt', 'x');
  await publishTo(subdirectory(mirror, listedKey('two')), { files: { 'same.txt': 'a' } });
  await put(web, 'bundle/a.txt', 'A');
  t.match(await runRepair(), [{ repaired: [{ path: 'a.txt', from: 'destination "mirror"' }] }]);
  t.equal((await snapshot(web)).get('bundle/a.txt'), 'a');
});

t.test('does not repair a catalog that does not record which bundle was published', async (t) => {
  const { web, runRepair } = await layOut('files');
  const text = (await snapshot(web)).get('bundle/.publisher.json') ?? '';
  const older = JSON.parse(text) as { bundles?: unknown };
  delete older.bundles;
  await put(web, 'bundle/.publisher.json', JSON.stringify(older));
  await put(web, 'bundle/a.txt', 'A');
  t.match(await runRepair(), [
    { error: { code: 'state_conflict', message: /does not record which bundle/ } },
  ]);
});
