import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import t from 'tap';
import type { Catalog, OutputRecord, Pending } from '../../../../src/core/catalog/catalog.ts';
import { serialiseCatalog } from '../../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { removeRelease } from '../../../../src/core/publish/unpublish/retire-releases.ts';
import type { Owner } from '../../../../src/core/storage/identity.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import type { Change, Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { contextWith, otherOwner, owner, put, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Removals in a release, and the permission for each. */

const at = '2026-11-20T00:00:00.000Z';
const third: Owner = { pipelineId: 'third', destinationId: 'web' };
const request = { isStill: async () => true, concurrency: 1 };
const context = contextWith(testClock());

function record(name: string, of: Owner = owner): OutputRecord {
  return {
    path: name as RelativePath,
    owner: of,
    source: { backend: 'local', id: '/source', path: 'bundle' },
    ...{ kind: 'file', digest: digestOf(name), size: name.length, updatedAt: at, url: null },
    generated: { contentType: null, cacheControl: null, generator: null },
  };
}

function catalogOf(parts: Partial<Catalog>): Catalog {
  return { generation: 1, updatedAt: at, bundles: [], outputs: [], pending: null, ...parts };
}

function pendingOf(of: Owner, outputs: OutputRecord[], removes: string[]): Pending {
  return {
    ...{ attemptId: 'x', owner: of, action: 'publish_new', startedAt: at, holder: null, renewals: 0 },
    ...{ outputs, removes: removes.map((name) => listedKey(name)) },
  };
}

async function putRelease(storage: Storage, catalog: Catalog, ...more: string[]): Promise<number> {
  const { outputs, pending } = catalog;
  const names = [...outputs, ...(pending?.outputs ?? [])].map((output): string => output.path);
  for (const name of [...names, ...(pending?.removes ?? []), ...more]) await put(storage, name, name);
  const bytes = serialiseCatalog(catalog);
  await put(storage, '.publisher.json', bytes.toString());
  return bytes.byteLength;
}

interface Seen {
  removed: string[];
  /** The states that were written. */
  states: { pending: { owner: { pipeline_id: string; destination_id: string } } | null }[];
  changes: Change[];
}

function watched(inner: Storage): { storage: Storage; seen: Seen } {
  const seen: Seen = { removed: [], states: [], changes: [] };
  const storage: Storage = delegate(inner, {
    async write(key, body, options) {
      if (key === '.publisher.json')
        seen.states.push((await json(Readable.from(body.open()))) as Seen['states'][0]);
      return inner.write(key, body, options);
    },
    async remove(key, options) {
      if (!key.startsWith('.publisher')) seen.removed.push(key);
      await inner.remove(key, options);
    },
    async obstacleTo(change) {
      seen.changes.push(change);
      return inner.obstacleTo(change);
    },
  });
  return { storage, seen };
}

t.test('removes recorded and announced files in order, and keeps all others', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  const pending = pendingOf(third, [record('b'), record('d')], ['c']);
  const outputs = [record('a', otherOwner), record('e')];
  await putRelease(inner, catalogOf({ outputs, pending }), 'unmanaged');
  const { storage, seen } = watched(inner);
  await removeRelease(context, storage, request);
  t.same(seen.removed, ['a', 'b', 'c', 'd', 'e']);
  t.same([...(await snapshot(inner)).keys()], ['unmanaged']);
});

t.test('removes nothing without a catalog', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  await putRelease(inner, catalogOf({ outputs: [record('a')] }));
  const { storage, seen } = watched(inner);
  await removeRelease(context, storage, request);
  t.same(seen.removed, ['a']);
});

t.test('directories that were already empty stay', async (t) => {
  const root = t.testdir();
  const storage = await localStorage(root);
  await putRelease(storage, catalogOf({ outputs: [record('sub/a')] }));
  mkdirSync(path.join(root, 'mine'));
  await removeRelease(context, storage, request);
  t.same([existsSync(path.join(root, 'mine')), existsSync(path.join(root, 'sub'))], [true, false]);
});

t.test('the intent names the owner of the interrupted attempt, the outputs or the bundle', async (t) => {
  const bundle = { owner: third, source: record('x').source, created: at, digest: digestOf('x') };
  const bundles = [bundle as unknown as Catalog['bundles'][0]];
  const cases: [Partial<Catalog>, Owner][] = [
    [{ outputs: [record('a')], bundles, pending: pendingOf(otherOwner, [], []) }, otherOwner],
    [{ outputs: [record('a'), record('b', otherOwner)], bundles }, owner],
    [{ bundles }, third],
    [{}, { pipelineId: 'none', destinationId: 'none' }],
  ];
  for (const [parts, { pipelineId, destinationId }] of cases) {
    const inner = memoryStorage({ flavour: 'objects' });
    await putRelease(inner, catalogOf(parts));
    const { storage, seen } = watched(inner);
    await removeRelease(context, storage, request);
    const owners = seen.states.flatMap(({ pending }) => (pending === null ? [] : [pending.owner]));
    t.same(owners[0], { pipeline_id: pipelineId, destination_id: destinationId });
    t.equal((await snapshot(inner)).size, 0, 'and nothing is left');
  }
});

t.test('rejects a state that is not a catalog before it writes anything', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  await put(inner, '.publisher.json', '{');
  await put(inner, 'a', 'a');
  const storage: Storage = delegate(inner, { write: async () => Promise.reject(new Error('written')) });
  await t.rejects(removeRelease(context, storage, request), { code: 'state_conflict' });
  t.equal((await snapshot(inner)).get('a'), 'a');
});

t.test('accepts a release that was removed while the lease was taken', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  await putRelease(inner, catalogOf({ outputs: [record('a')] }));
  const storage: Storage = delegate(inner, {
    async write(key, body, options) {
      if (key === '.publisher.lock') await inner.remove(listedKey('.publisher.json'));
      return inner.write(key, body, options);
    },
  });
  const isStill = async (): Promise<boolean> => Promise.reject(new Error('asked for nothing'));
  await removeRelease(context, storage, { ...request, isStill });
  t.same(
    [...(await snapshot(inner)).keys()],
    ['a'],
    'the file is left to the process that removed the state',
  );
});

t.test('detects obstacles to the state before removing anything', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const bytes = await putRelease(inner, catalogOf({ outputs: [record('a')] }));
  const { storage, seen } = watched(inner);
  const isStill = async (): Promise<boolean> => {
    await put(inner, '.publisher.tmp/another/output-0', 'staged by another');
    return true;
  };
  await removeRelease(context, storage, { ...request, isStill });
  t.same(seen.changes, [{ writes: [], removes: ['a'], from: '', bytes }]);
});

t.test('a stop restores everything', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  await putRelease(inner, catalogOf({ outputs: [record('a'), record('b')] }));
  const before = await snapshot(inner);
  const stop = new AbortController();
  const reason = new Error('stopped');
  const storage: Storage = delegate(inner, {
    async backUp(key, aside) {
      stop.abort(reason);
      return inner.backUp!(key, aside);
    },
  });
  await t.rejects(removeRelease({ ...context, signal: stop.signal }, storage, request), reason);
  t.same(await snapshot(inner), before);
});
