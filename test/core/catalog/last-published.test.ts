import t from 'tap';
import type { Catalog } from '../../../src/core/catalog/catalog.ts';
import { catalogReadLimits, lastCommitTime } from '../../../src/core/catalog/managed-paths.ts';
import { serialiseCatalog } from '../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { sourceBackends } from '../../../src/core/storage/backends.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { otherOwner, owner, put } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const at = (hour: number): string => `2026-11-20T${String(hour).padStart(2, '0')}:00:00.000Z`;

/** A catalog with one output, committed at this hour and written at the same time by default. */
interface Given {
  readonly hour: number;
  readonly writtenAt?: number;
  readonly by?: typeof owner;
  readonly padding?: number;
}

async function destination(catalogs: Readonly<Record<string, Given>>): Promise<{
  storage: Storage;
  read: string[];
}> {
  const inner = memoryStorage({ flavour: 'files' });
  for (const [name, given] of Object.entries(catalogs)) await put(inner, name, textOf(given));
  const read: string[] = [];
  const storage: Storage = {
    ...inner,
    async stat(key) {
      const found = await inner.stat(key);
      const { hour, writtenAt = hour } = catalogs[key] ?? { hour: 0 };
      return found && { ...found, modifiedAt: new Date(at(writtenAt)) };
    },
    read(key) {
      read.push(key);
      return inner.read(key);
    },
  };
  return { storage, read };
}

function textOf({ hour, by = owner, padding = 0 }: Given): string {
  const catalog: Catalog = {
    generation: 1,
    updatedAt: at(hour),
    bundles: [],
    outputs: [
      {
        path: 'a' as RelativePath,
        owner: by,
        source: { backend: sourceBackends[0] ?? 'local', id: '/source', path: '.' },
        kind: 'k'.repeat(1 + padding),
        digest: digestOf('a'),
        size: 1,
        updatedAt: at(hour),
        generated: { contentType: null, cacheControl: null, generator: null },
        url: null,
      },
    ],
    pending: null,
  };
  return serialiseCatalog(catalog).toString();
}

const look = async (storage: Storage, limits = {}): Promise<string | undefined> =>
  (
    await lastCommitTime(storage, owner, 'preserve_relative', { ...catalogReadLimits, ...limits })
  )?.toISOString();

t.test('finds the last commit in the most recently written catalogs', async (t) => {
  const { storage, read } = await destination({
    'a/.publisher.json': { hour: 3 },
    'b/.publisher.json': { hour: 9 },
    'c/.publisher.json': { hour: 5 },
    'd/.publisher.json': { hour: 11, by: otherOwner },
    'e/.publisher.json': { hour: 8 },
  });
  t.equal(await look(storage), at(9));
  t.equal(read.length, 5);
  read.length = 0;
  t.equal(await look(storage, { read: 2 }), at(9));
  t.same(read, ['d/.publisher.json', 'b/.publisher.json'], 'the newest first, up to the limit');
  t.equal(await look(storage, { read: 1 }), undefined, 'the newest one has another owner');
});

t.test('ignores states outside of bundle paths', async (t) => {
  const { storage } = await destination({
    '.publisher.json': { hour: 1 },
    'a/.publisher.json': { hour: 2 },
    'a/.publisher.tmp/x/.publisher.json': { hour: 9 },
    'a/page': { hour: 9 },
    'b/page': { hour: 9 },
    'c/.publisher.lock': { hour: 9 },
  });
  const paths: string[] = [];
  const listing: Storage = {
    ...storage,
    stat: async (key) => {
      paths.push(key);
      return storage.stat(key);
    },
    async *list(below, options) {
      yield* storage.list(below, options);
      yield { key: 'l/.publisher.json' as never, type: 'link', size: 0 };
    },
  };
  t.equal(await look(listing), at(2));
  t.same(paths, ['.publisher.json', 'a/.publisher.json'], 'no other requests');
  t.equal((await lastCommitTime(storage, owner, 'fixed'))?.toISOString(), at(1), 'only the root');
});

t.test('returns null beyond its limits', async (t) => {
  const catalogs = {
    'a/.publisher.json': { hour: 3 },
    'b/.publisher.json': { hour: 2, padding: 1000 },
    'b/page': { hour: 9 },
  };
  const { storage } = await destination(catalogs);
  const size = textOf(catalogs['b/.publisher.json']).length;
  for (const [limits, found] of [
    [{ entries: 3 }, at(3)],
    [{ entries: 2 }, undefined],
    [{ catalogs: 2 }, at(3)],
    [{ catalogs: 1 }, undefined],
    [{ bytes: size }, at(3)],
    [{ bytes: size - 1 }, undefined],
    [{ bytes: size - 1, read: 1 }, at(3)],
  ] as const)
    t.equal(await look(storage, limits), found, JSON.stringify(limits));
  t.equal((await lastCommitTime(storage, owner, 'preserve_relative'))?.toISOString(), at(3));
});

t.test('reads up to five catalogs of 16 MiB among 500 and 20,000 entries by default', async (t) => {
  const hours = Object.fromEntries([1, 2, 3, 4, 5, 6].map((hour) => [`${hour}/.publisher.json`, { hour }]));
  const { storage, read } = await destination(hours);
  const found = async (given: Storage): Promise<string | undefined> =>
    (await lastCommitTime(given, owner, 'preserve_relative'))?.toISOString();
  t.equal(await found(storage), at(6));
  t.equal(read.length, 5);
  /** More catalogs in the listing, with old times. */
  const among = (count: number, nameOf: (index: number) => string): Storage => ({
    ...storage,
    async *list(below, options) {
      yield* storage.list(below, options);
      for (let index = 0; index < count; index += 1)
        yield { key: nameOf(index) as never, type: 'file', size: 1 };
    },
    stat: async (key) =>
      (await storage.stat(key)) ?? { type: 'file', size: 1, version: null, modifiedAt: new Date(0) },
  });
  const catalogs = (count: number): Storage => among(count, (index) => `old/${index}/.publisher.json`);
  const entries = (count: number): Storage => among(count, (index) => `file-${index}`);
  for (const [given, hour] of [
    [catalogs(494), at(6)],
    [catalogs(495), undefined],
    [entries(19_994), at(6)],
    [entries(19_995), undefined],
  ] as const)
    t.equal(await found(given), hour);
  const large = (size: number): Storage => ({
    ...storage,
    async *list(below, options) {
      for await (const entry of storage.list(below, options)) yield { ...entry, size };
    },
    stat: async (key) => {
      const stat = await storage.stat(key);
      return stat && { ...stat, size };
    },
  });
  t.equal(await found(large(16 * 2 ** 20)), at(6));
  t.equal(await found(large(16 * 2 ** 20 + 1)), undefined);
});

t.test('an invalid state and one without a time do not hide the others', async (t) => {
  const { storage } = await destination({ 'a/.publisher.json': { hour: 3 } });
  await put(storage, 'b/.publisher.json', 'nothing of ours');
  t.equal(await look(storage), at(3));
  const timeless: Storage = {
    ...storage,
    stat: async (key) => {
      const found = await storage.stat(key);
      return found && { ...found, modifiedAt: null };
    },
  };
  t.equal(await look(timeless), at(3));
});
