import t from 'tap';
import type { CatalogState, OutputRecord } from '../../../src/core/catalog/catalog.ts';
import {
  isSameBytes,
  measureState,
  readState,
  readVersionedState,
  requireCatalog,
  stateKey,
  type StoredState,
} from '../../../src/core/catalog/catalog-store.ts';
import { surveyDestination } from '../../../src/core/catalog/managed-paths.ts';
import { parseInMemory } from '../../../src/core/catalog/parse.ts';
import { serialiseCatalog } from '../../../src/core/catalog/serialise.ts';
import { observeBytes } from '../../../src/core/catalog/settle-interrupted.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { sourceBackends } from '../../../src/core/storage/backends.ts';
import { readBody } from '../../../src/core/storage/body.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { put } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const text =
  '{"schema_version":4,"generation":1,"updated_at":"2026-11-20T00:00:00Z","outputs":[],"pending":null}';
const updatedAt = '2026-11-20T00:00:00.000Z';
const denied = new WaybillError('storage_denied', 'no rights');
const unreadable: Storage = {
  ...memoryStorage({ flavour: 'objects' }),
  read: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(denied) }) }),
};

t.test('a missing state is absent, and an unreadable one is an error', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  t.same(await readState(storage), { state: { kind: 'absent' }, raw: null });
  t.same(await readVersionedState(storage), { state: { kind: 'absent' }, raw: null, version: null });
  t.equal(await measureState(storage), null);
  await t.rejects(readState(unreadable), { code: 'storage_denied' });
  await t.rejects(measureState(unreadable), { code: 'storage_denied' });
});

t.test('returns a state with its bytes and, on request, the version before the read', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  await put(inner, '.publisher.json', text);
  const { raw } = await readState(inner);
  t.match(raw, { size: text.length, digest: digestOf(text) });
  t.equal(await textOf({ raw }), text);
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

t.test('parses unchanged bytes once, and notices changed and missing ones', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, '.publisher.json', text);
  const first = await readState(storage);
  t.equal(await readState(storage), first, 'a catalog of many outputs is in memory once');
  await put(storage, '.publisher.json', text.replace('"generation":1', '"generation":2'));
  t.match(await readState(storage), { state: { catalog: { generation: 2 } } });
  await storage.remove(stateKey);
  t.same(await readState(storage), { state: { kind: 'absent' }, raw: null });
});

t.test('reads a large state without buffering it, with the same result', async (t) => {
  const outputs = Array.from({ length: 5_000 }, (_, index) => record(`d/file-${index}`));
  const catalog = { generation: 1, updatedAt, bundles: [], outputs, pending: null };
  const own = serialiseCatalog(catalog).toString();
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, '.publisher.json', own);
  const found = await readState(storage);
  t.equal(await textOf(found), own, 'its bytes are generated again');
  t.match(found, { state: { kind: 'valid' }, raw: { size: own.length, digest: digestOf(own) } });
  t.equal(await readState(storage), found, 'the same bytes are the same state');

  const place = own.indexOf('"size":1', own.length / 2);
  for (const [what, text] of [
    ['another record', `${own.slice(0, place)}"size":2${own.slice(place + 8)}`],
    ['laid out otherwise', JSON.stringify(JSON.parse(own))],
    ['laid out otherwise from the middle on', `${own.slice(0, place)}"size": 1${own.slice(place + 8)}`],
    ['without an end', own.slice(0, -2)],
    ['a broken record', `${own.slice(0, place)}"size":-1${own.slice(place + 8)}`],
  ] as const) {
    await put(storage, '.publisher.json', text);
    const changed = await readState(storage);
    t.same(changed.state, parseInMemory(Buffer.from(text), sourceBackends), what);
    t.equal(await textOf(changed), text, what);
    t.match(changed.raw, { size: text.length, digest: digestOf(text) }, what);
  }
  t.match((await readState(storage)).state, { kind: 'invalid', reason: /^outputs\[\d{4}\]\.size is not/ });
});

t.test('reads a state twice only if it is large and not canonical', async (t) => {
  const outputs = Array.from({ length: 5_000 }, (_, index) => record(`d/file-${index}`));
  const large = serialiseCatalog({ generation: 1, updatedAt, bundles: [], outputs, pending: null });
  const inner = memoryStorage({ flavour: 'objects' });
  let readings = 0;
  const storage: Storage = {
    ...inner,
    async *read(key) {
      readings += 1;
      for await (const bytes of inner.read(key))
        for (let from = 0; from < bytes.length; from += 65_536) yield bytes.subarray(from, from + 65_536);
    },
  };
  for (const [what, found, expected] of [
    ['small', text, 1],
    ['another small one', text.replace('"generation":1', '"generation":2'), 1],
    ['large', large.toString(), 1],
    ['the same', large.toString(), 1],
    ['large, and laid out otherwise', JSON.stringify(JSON.parse(large.toString())), 3],
  ] as const) {
    await put(inner, '.publisher.json', found);
    readings = 0;
    t.equal((await readState(storage)).state.kind, 'valid', what);
    t.equal(readings, expected, what);
  }
});

t.test('a large state that vanishes during the read is absent', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  const vanishing: Storage = {
    ...inner,
    async *read(key) {
      for await (const chunk of inner.read(key)) {
        await inner.remove(key);
        yield chunk;
      }
    },
  };
  await put(inner, '.publisher.json', `{\n  "outputs": [\n${' '.repeat(2 ** 20)}x\n`);
  t.same(await readState(vanishing), { state: { kind: 'absent' }, raw: null });
});

t.test('does not read a state beyond the size limit', async (t) => {
  const mebibytes = (count: number, of: number): Storage => ({
    ...memoryStorage({ flavour: 'objects' }),
    async *read() {
      for (let each = 0; each < count; each += 1) yield Buffer.alloc(2 ** 20, of);
    },
  });
  const tooLarge = { code: 'storage_permanent', message: /is larger than 268435456 bytes/ };
  await t.rejects(readState(mebibytes(257, 0x20)), tooLarge);
  const inOne: Storage = {
    ...memoryStorage({ flavour: 'objects' }),
    async *read() {
      yield Buffer.alloc(513 * 2 ** 20);
    },
  };
  await t.rejects(readState(inOne), { ...tooLarge, message: /is larger than 536870912 bytes/ });
  t.match(await readState(mebibytes(2, 0x20)), { state: { kind: 'invalid', reason: /is not JSON/ } });
});

t.test('compares states by size and digest, or as both absent', async (t) => {
  const [a, b] = [digestOf('a'), digestOf('b')];
  for (const [one, other, isSame] of [
    [null, null, true],
    [null, { size: 1, digest: a }, false],
    [{ size: 1, digest: a }, null, false],
    [{ size: 1, digest: a }, { size: 1, digest: a }, true],
    [{ size: 1, digest: a }, { size: 1, digest: b }, false],
    [{ size: 1, digest: a }, { size: 2, digest: a }, false],
  ] as const)
    t.equal(isSameBytes(one, other), isSame, JSON.stringify([one, other]));
});

t.test('requireCatalog describes a state that is not valid', async (t) => {
  const catalog = { generation: 1, updatedAt, bundles: [], outputs: [], pending: null };
  t.equal(requireCatalog({ kind: 'valid', catalog }), catalog);
  for (const [state, message] of [
    [{ kind: 'absent' }, /was removed while/],
    [{ kind: 'legacy', version: 2, records: [] }, /old schema version 2/],
    [{ kind: 'future', version: 5 }, /version 5, which is newer/],
    [{ kind: 'invalid', reason: 'outputs is not an array' }, /is invalid: outputs is not an array/],
  ] as const)
    t.throws(
      () => requireCatalog({ ...state } as CatalogState),
      { code: 'state_conflict', message },
      state.kind,
    );
});

t.test(
  'observes files in full, with null for a missing one and an error for an unreadable one',
  async (t) => {
    const storage = memoryStorage({ flavour: 'objects' });
    await put(storage, 'a', 'text');
    let read = 0;
    const observed = await observeBytes(storage, ['a', 'b'], { onBytes: (count) => (read += count) });
    t.same(Object.fromEntries(observed), { a: { size: 4, digest: digestOf('text') }, b: null });
    t.equal(read, 4);
    await t.rejects(observeBytes(unreadable, ['a']), { code: 'storage_denied' });
  },
);

function record(path: string): OutputRecord {
  return {
    path: path as RelativePath,
    owner: { pipelineId: 'maps', destinationId: 'web' },
    source: { backend: 'local', id: '/source', path: '.' },
    kind: 'file',
    digest: digestOf(path),
    size: 1,
    updatedAt,
    generated: { contentType: 'text/plain', cacheControl: null, generator: null },
    url: null,
  };
}

async function textOf({ raw }: Pick<StoredState, 'raw'>): Promise<string> {
  if (raw === null) throw new Error('there is no state');
  return Buffer.from((await readBody('state', raw.body, { mode: 'replace' })).bytes).toString();
}

t.test('a survey distinguishes states from other reserved names', async (t) => {
  const entries: [name: string, type: 'file' | 'link'][] = [
    ['.publisher.lock', 'file'],
    ['a/.publisher.json', 'file'],
    ['a/.publisher.tmp/x/.publisher.json', 'file'],
    ['a/b', 'file'],
    ['a/deep/c', 'file'],
    ['a/deep/.publisher.lock', 'file'],
    ['a/odd/.publisher.json', 'link'],
    ['ab/c', 'file'],
    ['a/n/.publisher.json', 'file'],
    ['a/n/d', 'file'],
    ['0', 'file'],
  ];
  const survey = async (more: typeof entries = []) => {
    const storage: Storage = {
      ...memoryStorage({ flavour: 'files' }),
      async *list() {
        for (const [name, type] of [...entries, ...more]) yield { key: listedKey(name), type, size: 0 };
      },
    };
    const { paths, files, strays } = await surveyDestination(storage);
    return { paths, strays, files: [...files].map(([path, names]) => [path, [...names].sort()]) };
  };
  t.same(await survey(), {
    paths: ['a', 'a/n'],
    strays: ['0', 'ab/c'],
    files: [
      ['a', ['b', 'deep/c']],
      ['a/n', ['d']],
    ],
  });
  t.same(await survey([['.publisher.json', 'file']]), {
    paths: ['', 'a', 'a/n'],
    strays: [],
    files: [
      ['', ['0', 'ab/c']],
      ['a', ['b', 'deep/c']],
      ['a/n', ['d']],
    ],
  });
});

/** A valid state that is not canonical and exceeds the buffer. */
const large = `${' '.repeat(2 << 20)}${text}`;

t.test('reads a large state that was reformatted as a whole, with its bytes', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, '.publisher.json', large);
  const { state, raw } = await readState(storage);
  t.equal(state.kind, 'valid');
  t.match(raw, { size: large.length, digest: digestOf(large) });
  t.equal(await textOf({ raw }), large);
});

t.test('a large state that vanishes between two reads is absent', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  await put(inner, '.publisher.json', large);
  let reads = 0;
  const storage: Storage = {
    ...inner,
    async *read(key) {
      reads += 1;
      if (reads === 2) await inner.remove(key);
      yield* inner.read(key);
    },
  };
  t.same(await readState(storage), { state: { kind: 'absent' }, raw: null });
  await put(inner, '.publisher.json', large);
  reads = 0;
  const failing: Storage = { ...inner, read: (key) => (++reads === 2 ? unreadable : inner).read(key) };
  await t.rejects(readState(failing), denied);
});
