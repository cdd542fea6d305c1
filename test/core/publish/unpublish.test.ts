import t from 'tap';
import { lockText } from '../../../src/core/catalog/lease/lock-file.ts';
import { markDead, newHolder } from '../../../src/core/catalog/lease/this-holder.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import type { UnpublishReport, UnpublishRequest } from '../../../src/core/publish/unpublish/unpublication.ts';
import { unpublish } from '../../../src/core/publish/unpublish/unpublish.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';
import { type FaultLog, withFaults } from '../../faults/with-faults.ts';
import {
  bundlePath,
  contextWith,
  newWorld,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
  worldKinds,
} from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';
import { parseState } from '../../support/parse-state.ts';

const occurrences: Occurrence[] = [];
const context = {
  ...contextWith(testClock()),
  notify: (occurrence: Occurrence) => void occurrences.push(occurrence),
};

async function remove(root: Storage, more: Partial<UnpublishRequest> = {}): Promise<UnpublishReport> {
  return unpublish(context, root, {
    ...{ owner, destinationPath: bundlePath, maxRemoved: null, dryRun: false, concurrency: 1 },
    ...more,
  });
}

for (const kind of worldKinds)
  t.test(
    `${kind}: removes the published files, then the catalog; the next publication is a first one`,
    async (t) => {
      const root = await newWorld(kind, t).open();
      await put(root, 'sibling.txt', 's');
      await publishTo(root, { files: { 'a.txt': 'a', 'd/e/b.txt': 'b' } });
      await put(root, 'bundle/d/mine.txt', 'unmanaged');
      await put(root, 'bundle/a.txt', 'edited by hand');
      const before = await snapshot(root);
      const planned = await remove(root, { dryRun: true });
      t.same(await snapshot(root), before, 'a dry run changes nothing');
      occurrences.length = 0;
      const done = await remove(root);
      t.same(done, planned, 'and predicts it exactly');
      t.match(done, {
        outputs: ['a.txt', 'd/e/b.txt'],
        bytes: 2,
        bundle: { source: { path: 'bundle' } },
      });
      t.same([done.staying, done.releases], [[], []]);
      t.same(Object.fromEntries(await snapshot(root)), {
        'bundle/d/mine.txt': 'unmanaged',
        'sibling.txt': 's',
      });
      if (!kind.includes('objects'))
        t.equal(await root.stat(listedKey('bundle/d/e')), undefined, 'no empty directory');
      t.match(occurrences, [
        {
          type: 'bundle.unpublished',
          data: {
            destination_path: 'bundle',
            bundle: { path: 'bundle', created: '2026-11-20T00:00:00.000Z' },
            reason: 'unpublish',
            counts: { outputs_removed: 2 },
            outputs: [{ path: 'a.txt' }, { path: 'd/e/b.txt' }],
          },
        },
      ]);
      await root.remove(listedKey('bundle/d/mine.txt'));
      t.equal(await root.stat(listedKey('bundle')), undefined, 'no files of the bundle path are left');
      t.match(await publishTo(root, { files: { 'a.txt': 'a' } }), { action: 'publish_new', error: null });
    },
  );

t.test('removes only its own outputs from a shared catalog, and rejects one without any', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'theirs.txt': 't' }, as: otherOwner });
  await t.rejects(remove(root), {
    code: 'not_owned',
    message: /published by other\/web/,
    hint: /--pipeline other --destination web/,
  });
  await publishTo(root, { files: { 'ours.txt': 'o' } });
  t.match(await remove(root), { outputs: ['ours.txt'], staying: [otherOwner] });
  const state = await stateOf(root);
  t.match(state, { kind: 'valid', catalog: { bundles: [{ owner: otherOwner }], pending: null } });
  t.match(await publishTo(root, { files: { 'theirs.txt': 't' }, as: otherOwner }), { action: 'skip_same' });
});

t.test('removes a catalog whose last output was pruned', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const empty = {
    schema_version: 4,
    generation: 3,
    updated_at: '2026-11-20T00:00:00Z',
    outputs: [],
    pending: null,
  };
  await put(root, 'bundle/.publisher.json', JSON.stringify(empty));
  t.match(await remove(root), { outputs: { length: 0 }, staying: { length: 0 }, bundle: null });
  t.same([...(await snapshot(root)).keys()], []);
});

t.test('suggests a path for an unpublished one, and creates nothing', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await t.rejects(remove(root), { code: 'not_published', hint: /nothing is published/ });
  await publishTo(root, { files: { 'sub/a.txt': 'a' } });
  const before = await snapshot(root);
  await t.rejects(remove(root, { destinationPath: 'bumdle' }), {
    code: 'not_published',
    hint: 'did you mean "bundle"?',
  });
  await t.rejects(remove(root, { destinationPath: 'zzz' }), {
    code: 'not_published',
    hint: 'published here: bundle',
  });
  await t.rejects(remove(root, { destinationPath: 'bundle/sub' }), {
    code: 'not_published',
    hint: /belong to the bundle path "bundle"/,
  });
  await put(root, 'top/x/.publisher.json', '{}');
  await t.rejects(remove(root, { destinationPath: 'top' }), {
    code: 'not_published',
    hint: 'unpublish one bundle path at a time: top/x',
  });
  await root.remove(listedKey('top/x/.publisher.json'));
  t.same(await snapshot(root), before);
});

t.test('leaves a state that is not a catalog unchanged', async (t) => {
  for (const [text, hint] of [
    ['{"version": 2, "files": ["a"]}', /publish once/],
    ['{"schema_version": 5}', /newer waybill/],
    ['nonsense', /restore it/],
  ] as const) {
    const root = memoryStorage({ flavour: 'files' });
    await put(root, 'bundle/.publisher.json', text);
    await t.rejects(remove(root), { code: 'state_conflict', hint });
    t.equal((await snapshot(root)).size, 1);
  }
});

t.test('limits.max_removed applies, but not again after an interruption', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'a.txt': 'a', 'b.txt': 'b' } });
  const before = await snapshot(root);
  for (const dryRun of [true, false])
    await t.rejects(remove(root, { maxRemoved: { percent: 50 }, dryRun }), {
      code: 'too_many_removals',
    });
  t.same(await snapshot(root), before);
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  const removal = 16;
  const crashing = withFaults(root, { kind: 'crash', at: removal, code: 'storage_permanent' }, log);
  await t.rejects(remove(crashing));
  const state = await stateOf(root);
  t.match(state, {
    kind: 'valid',
    catalog: { pending: { action: 'unpublish', outputs: { length: 0 }, removes: ['a.txt', 'b.txt'] } },
  });
  t.match(await remove(root, { maxRemoved: { count: 0 } }), { outputs: ['a.txt', 'b.txt'] });
  t.same([...(await snapshot(root)).keys()], []);
});

t.test('removes files of a killed publication, too', async (t) => {
  const root = memoryStorage({ flavour: 'objects' });
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  const at = 10;
  await publishTo(withFaults(root, { kind: 'crash', at, code: 'storage_permanent' }, log), {
    files: { 'a.txt': 'a', 'b.txt': 'b' },
  });
  const left = await snapshot(root);
  t.ok(left.has('bundle/a.txt'), 'it wrote something');
  t.match(await stateOf(root), { catalog: { outputs: { length: 0 }, pending: { action: 'publish_new' } } });
  t.match(await remove(root), { outputs: ['a.txt', 'b.txt'] });
  t.same([...(await snapshot(root)).keys()], []);
});

t.test('a state with an attempt of an unknown version is invalid', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'a.txt': 'a' } });
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  await t.rejects(remove(withFaults(root, { kind: 'crash', at: 14, code: 'storage_permanent' }, log)));
  const text = (await snapshot(subdirectory(root, listedKey('bundle')))).get('.publisher.json') ?? '';
  t.equal(parseState(Buffer.from(text), ['local']).kind, 'valid');
  t.match(parseState(Buffer.from(text.replace('"unpublish"', '"unheard_of"')), ['local']), {
    kind: 'invalid',
    reason: /pending\.action is not one of/,
  });
});

t.test('sweeps files of an attempt that was killed after its commit, but not in a dry run', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const dead = newHolder();
  markDead(dead);
  await put(root, 'bundle/.publisher.lock', lockText(dead, 0));
  for (const [dryRun, left] of [
    [true, ['bundle/.publisher.lock']],
    [false, []],
  ] as const) {
    await t.rejects(remove(root, { dryRun }), { code: 'not_published' });
    t.same([...(await snapshot(root)).keys()], left);
  }
});

t.test('reports an obstacle before removing anything, also in a dry run', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'a.txt': 'a', 'b.txt': 'b' } });
  const before = await snapshot(root);
  const denied = new WaybillError('storage_denied', 'the directory cannot be written to');
  const asked: unknown[] = [];
  const unwritable: Storage = {
    ...root,
    obstacleTo: async ({ removes, writes, bytes }) => {
      asked.push([removes, writes, typeof bytes]);
      return denied;
    },
  };
  for (const dryRun of [true, false]) await t.rejects(remove(unwritable, { dryRun }), denied);
  const looked = [['bundle/a.txt', 'bundle/b.txt'], [], 'number'];
  t.same(asked, [looked, looked]);
  t.same(await snapshot(root), before);
});

t.test('reports an obstacle that appeared before the lease was taken', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'a.txt': 'a' } });
  const denied = new WaybillError('storage_denied', 'the directory cannot be written to');
  const unwritable: Storage = {
    ...root,
    async obstacleTo(change) {
      return (await root.stat(listedKey('bundle/.publisher.lock'))) === undefined
        ? root.obstacleTo(change)
        : denied;
    },
  };
  const before = await snapshot(root);
  await t.rejects(remove(unwritable), denied);
  t.same(await snapshot(root), before);
  t.match(await remove(root), { outputs: ['a.txt'] });
});

t.test('a stop before the first removal leaves everything unchanged', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'a.txt': 'a', 'b.txt': 'b' } });
  const before = await snapshot(root);
  const stop = new AbortController();
  const stopping: Storage = {
    ...root,
    async backUp(key, aside) {
      stop.abort(new Error('SIGTERM'));
      return root.backUp!(key, aside);
    },
  };
  const request = { owner, destinationPath: bundlePath, maxRemoved: null, dryRun: false, concurrency: 1 };
  const stopped = unpublish({ ...context, signal: stop.signal }, stopping, request);
  await t.rejects(stopped, { message: /SIGTERM|stopped/ });
  t.same(await snapshot(root), before);
});

t.test('works without a notifier, and lists only some of many bundle paths', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { 'a.txt': 'a' } });
  const names = Array.from({ length: 12 }, (_, index) => `p${String(index).padStart(2, '0')}`);
  for (const name of names.slice(0, 9)) await put(root, `${name}/.publisher.json`, '{}');
  const named = async (): Promise<string> =>
    remove(root, { destinationPath: 'zzzzzz' }).then(
      () => '',
      (error: unknown) => (error as WaybillError).hint ?? '',
    );
  const ten = `published here: bundle, ${names.slice(0, 9).join(', ')}`;
  t.equal(await named(), ten);
  for (const name of names.slice(9)) await put(root, `${name}/.publisher.json`, '{}');
  t.equal(await named(), `${ten} and 3 more`);
  const silent = contextWith(testClock());
  const request = { owner, destinationPath: bundlePath, maxRemoved: null, dryRun: false, concurrency: 1 };
  t.match(await unpublish(silent, root, request), { outputs: ['a.txt'] });
});

t.test('reports not_published if another process unpublished before the lease', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  await publishTo(inner, { files: { 'a.txt': 'a' } });
  let isFirst = true;
  const root: Storage = {
    ...inner,
    async write(key, body, options) {
      if (isFirst) {
        isFirst = false;
        await remove(inner);
      }
      return inner.write(key, body, options);
    },
  };
  await t.rejects(remove(root), { code: 'not_published' });
  t.same([...(await snapshot(inner)).keys()], []);
});
