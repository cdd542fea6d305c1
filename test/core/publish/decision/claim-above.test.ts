import t from 'tap';
import { findClaimAbove } from '../../../../src/core/catalog/managed-paths.ts';
import { serialiseCatalog } from '../../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import type { Owner } from '../../../../src/core/storage/identity.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import {
  bundleOf,
  contextWith,
  destinationOf,
  type Files,
  newWorld,
  otherOwner,
  owner,
  put,
  snapshot,
  testClock,
} from '../../../faults/world.ts';

async function publishAt(
  storage: Storage,
  destinationPath: string,
  files: Files,
  { as = owner, force = false, dryRun = false }: { as?: Owner; force?: boolean; dryRun?: boolean } = {},
): Promise<ActionResult> {
  const destination = destinationOf('additive', as.destinationId);
  const publication = { bundle: bundleOf(files), owner: as, destination, destinationPath };
  return publishBundle(contextWith(testClock()), storage, publication, { dryRun, force });
}

const output = (path: string, as = owner) => ({
  path: path as RelativePath,
  owner: as,
  source: { backend: 'local' as const, id: '/s', path: '.' },
  kind: 'file',
  digest: digestOf(path),
  size: 1,
  updatedAt: '2026-11-20T00:00:00.000Z',
  generated: { contentType: null, cacheControl: null, generator: null },
  url: null,
});

t.test('the first parent catalog with files there claims them for their owner', async (t) => {
  const { updatedAt } = output('a');
  const catalog = {
    generation: 1,
    updatedAt,
    bundles: [],
    outputs: [output('b/x'), output('bc/y')],
    pending: null,
  };
  const pending = {
    ...{ attemptId: 'x', owner: otherOwner, action: 'publish_new' as const, startedAt: updatedAt },
    ...{ holder: null, renewals: 0, outputs: [output('b/n', otherOwner)], removes: [listedKey('b/z')] },
  };
  const v3 = { schema_version: 3, pipeline_id: owner.pipelineId, destination_id: owner.destinationId };
  const legacyOutput = { path: 'b', digest: digestOf('b'), size: 1, updated_at: updatedAt };
  for (const [what, text, files, as] of [
    ['nothing below it', serialiseCatalog({ ...catalog, outputs: [output('bc/y')] }), undefined, null],
    ['a record', serialiseCatalog(catalog), { first: 'b/x', others: 0 }, owner],
    [
      'a record of a file',
      serialiseCatalog({ ...catalog, outputs: [output('b')] }),
      { first: 'b', others: 0 },
      owner,
    ],
    ['an intent', serialiseCatalog({ ...catalog, pending }), { first: 'b/n', others: 2 }, otherOwner],
    [
      'removals',
      serialiseCatalog({ ...catalog, outputs: [], pending: { ...pending, outputs: [] } }),
      { first: 'b/z', others: 0 },
      otherOwner,
    ],
    ['a superseded list', '{"version":2,"files":["b/y","b/x","c"]}', { first: 'b/x', others: 1 }, null],
    [
      'a superseded catalog',
      JSON.stringify({ ...v3, outputs: [legacyOutput] }),
      { first: 'b', others: 0 },
      owner,
    ],
    ['broken catalogs', '{', null, null],
    ['newer catalogs', '{"schema_version":9}', null, null],
  ] as const)
    for (const catalogPath of ['.', 'sub']) {
      const { storage, reads } = countingStates(await newWorld('memory objects', t).open());
      const prefix = catalogPath === '.' ? '' : 'sub/';
      await put(storage, `${prefix}.publisher.json`, text.toString());
      const claim = await findClaimAbove(storage, `${prefix}b`);
      const named = files && { ...files, first: prefix + files.first };
      t.same(claim, files === undefined ? null : { catalogPath, files: named, owner: as }, what);
      t.ok(reads.length <= 2);
      t.equal(await findClaimAbove(storage, '.'), null, 'nothing is above the root');
      t.ok(reads.length <= 2, 'without reading anything');
    }
});

/** The storage, and the states that are read from it. */
function countingStates(storage: Storage): { storage: Storage; reads: string[] } {
  const reads: string[] = [];
  const counting: Storage = delegate(storage, {
    read(key) {
      if (key.endsWith('.publisher.json')) reads.push(key);
      return storage.read(key);
    },
  });
  return { storage: counting, reads };
}

const theirs = { 'sub/b/one.txt': '1', 'sub/b/two.txt': '2', 'sub/own.txt': 'o' };

for (const kind of ['memory files', 'memory objects', 'local'] as const) {
  t.test(
    `${kind}: files recorded by a catalog above are not unmanaged, and force does not delete them`,
    async (t) => {
      for (const [at, where] of [
        ['.', 'the destination root'],
        ['sub', '"sub"'],
      ] as const) {
        const storage = await newWorld(kind, t).open();
        const files = at === '.' ? theirs : { 'b/one.txt': '1', 'b/two.txt': '2', 'own.txt': 'o' };
        await publishAt(storage, at, files, { as: otherOwner });
        const before = await snapshot(storage);
        for (const dryRun of [true, false]) {
          const refused = await publishAt(storage, 'sub/b', { 'ours.txt': 'x' }, { dryRun });
          t.match(refused, { action: 'fail_unmanaged', reason: { code: 'content_of_catalog_above' } });
          t.match(
            refused.error?.message,
            `"sub/b/one.txt" and 1 more, which the catalog at ${where} records for other/web`,
          );
          t.notMatch(refused.error?.message, 'not managed');
          t.notMatch(refused.error?.hint, '--force');
          const forced = await publishAt(storage, 'sub/b', { 'ours.txt': 'x' }, { dryRun, force: true });
          t.match(forced, { action: 'error', error: { code: 'nested_managed_path' } });
          t.match(
            forced.error?.message,
            `would delete "sub/b/one.txt" and 1 more, which the catalog at ${where} records for other/web`,
          );
        }
        t.same(await snapshot(storage), before, 'nothing was changed');
        t.match(await publishAt(storage, at, files, { as: otherOwner }), { action: 'skip_same' });
      }
    },
  );

  t.test(
    `${kind}: a managed bundle path with colliding records does not count as unmanaged either`,
    async (t) => {
      const storage = await newWorld(kind, t).open();
      await publishAt(storage, 'sub/b', { 'ours.txt': 'x' });
      await put(storage, 'sub/b/one.txt', '1');
      // Catalogs of older versions may overlap: both record files of one directory.
      const { storage: seen } = countingStates(storage);
      const state = (await snapshot(seen)).get('sub/b/.publisher.json') ?? '';
      await put(
        storage,
        '.publisher.json',
        state.replaceAll('ours.txt', 'sub/b/one.txt').replaceAll('"maps"', '"other"'),
      );
      const refused = await publishAt(storage, 'sub/b', { 'ours.txt': 'x', 'one.txt': '2' });
      t.match(refused, { action: 'fail_unmanaged', error: { message: /records for other\/web/ } });
      const forced = await publishAt(storage, 'sub/b', { 'ours.txt': 'x', 'one.txt': '2' }, { force: true });
      t.match(forced, { action: 'error', error: { code: 'nested_managed_path', message: /for other\/web/ } });
      t.equal((await snapshot(storage)).get('sub/b/one.txt'), '1');
    },
  );

  t.test(`${kind}: an invalid state above prevents force from deleting below it`, async (t) => {
    const storage = await newWorld(kind, t).open();
    await put(storage, 'sub/b/stray.txt', 's');
    await put(storage, '.publisher.json', '{"schema_version": 9}');
    t.match(await publishAt(storage, 'sub/b', { a: 'a' }), { reason: { code: 'content_unmanaged' } });
    const forced = await publishAt(storage, 'sub/b', { a: 'a' }, { force: true });
    t.match(forced.error, {
      code: 'nested_managed_path',
      message: /catalog at the destination root may record/,
    });
    t.equal((await snapshot(storage)).get('sub/b/stray.txt'), 's');
  });

  t.test(`${kind}: reads the states above only if content is rejected or cleared, once each`, async (t) => {
    const { storage, reads } = countingStates(await newWorld(kind, t).open());
    for (const files of [{ a: '1' }, { a: '1' }, { a: '2' }]) await publishAt(storage, 'x/y/z', files);
    t.same(new Set(reads), new Set(['x/y/z/.publisher.json']), 'published, unchanged, published again');
    await put(storage, 'p/q/r/stray.txt', 's');
    reads.length = 0;
    await publishAt(storage, 'p/q/r', { a: '1' });
    const count = (key: string): number => reads.filter((read) => read === key).length;
    for (const above of ['.publisher.json', 'p/.publisher.json', 'p/q/.publisher.json'])
      t.equal(count(above), 1, above);
    const forced = await publishAt(storage, 'p/q/r', { a: '1' }, { force: true });
    t.match(forced, { action: 'force_replace', error: null }, 'unclaimed content is still replaced');
    t.notOk((await snapshot(storage)).has('p/q/r/stray.txt'));
  });
}
