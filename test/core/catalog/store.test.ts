import t from 'tap';
import { observeBytes } from '../../../src/core/catalog/observe-bytes.ts';
import { measureState, readState, readVersionedState, stateKey } from '../../../src/core/catalog/store.ts';
import { digestOf } from '../../../src/core/digest.ts';
import { WaybillError } from '../../../src/core/errors.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { collect } from '../../../src/core/storage/collect.ts';
import { put } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const text =
  '{"schema_version":4,"generation":1,"updated_at":"2026-11-20T00:00:00Z","outputs":[],"pending":null}';
const denied = new WaybillError('storage_denied', 'no rights');
const unreadable: Storage = {
  ...memoryStorage({ flavour: 'objects' }),
  read: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(denied) }) }),
};

t.test('a state that is not there is absent, and one that cannot be read is an error', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  t.same(await readState(storage), { state: { kind: 'absent' }, raw: null });
  t.same(await readVersionedState(storage), { state: { kind: 'absent' }, raw: null, version: null });
  t.equal(await measureState(storage), null);
  await t.rejects(readState(unreadable), { code: 'storage_denied' });
  await t.rejects(measureState(unreadable), { code: 'storage_denied' });
});

t.test('a state comes with its bytes and, if asked for, the version from before the reading', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  await put(inner, '.publisher.json', text);
  const { raw } = await readState(inner);
  t.match(raw, { size: text.length, digest: digestOf(text) });
  t.equal((await collect('state', raw!.body, { mode: 'replace' })).bytes.toString(), text);
  const before = await inner.stat('.publisher.json' as never);
  const changing: Storage = {
    ...inner,
    async *read(key) {
      await put(inner, '.publisher.json', text.replace('1', '2'));
      yield* inner.read(key);
    },
  };
  const found = await readVersionedState(changing);
  t.equal(found.version, before?.version, 'a condition on it fails after the change');
  t.equal(found.state.kind, 'valid');
});

t.test('the same bytes are parsed once; other bytes, and none, are seen', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, '.publisher.json', text);
  const first = await readState(storage);
  t.equal(await readState(storage), first, 'a catalog of many outputs is in memory once');
  await put(storage, '.publisher.json', text.replace('"generation":1', '"generation":2'));
  t.match(await readState(storage), { state: { catalog: { generation: 2 } } });
  await storage.remove(stateKey);
  t.same(await readState(storage), { state: { kind: 'absent' }, raw: null });
});

t.test('bytes are observed in full; a missing file is null, an unreadable one an error', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, 'a', 'text');
  let read = 0;
  const observed = await observeBytes(storage, ['a', 'b'], { onBytes: (count) => (read += count) });
  t.same(
    [...observed],
    [
      ['a', { size: 4, digest: digestOf('text') }],
      ['b', null],
    ],
  );
  t.equal(read, 4);
  await t.rejects(observeBytes(unreadable, ['a']), { code: 'storage_denied' });
});
