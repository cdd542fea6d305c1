import t from 'tap';
import {
  type Catalog,
  intentPaths,
  type OutputRecord,
  type Pending,
  recordedPaths,
} from '../../../src/core/catalog/catalog.ts';
import { pathsToSettle, settle } from '../../../src/core/catalog/settle.ts';
import { settleInterrupted, sweepUnfinished } from '../../../src/core/catalog/settle-interrupted.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { put, snapshot } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const owner = { pipelineId: 'p', destinationId: 'd' };

function record(path: string, text: string): OutputRecord {
  return {
    path: path as RelativePath,
    owner,
    source: { backend: 'local', id: '/s', path: '.' },
    kind: 'file',
    digest: digestOf(text),
    size: Buffer.byteLength(text),
    updatedAt: '2026-11-20T00:00:00Z',
    generated: { contentType: null, cacheControl: null, generator: null },
    url: null,
  };
}

function pendingOf(outputs: OutputRecord[], removes: string[]): Pending {
  return {
    attemptId: 'a',
    owner,
    action: 'replace_catalog',
    startedAt: '2026-11-20T00:00:00Z',
    holder: null,
    renewals: 0,
    outputs,
    removes: removes.map(listedKey),
  };
}

const catalog: Catalog = {
  generation: 1,
  updatedAt: '2026-11-20T00:00:00Z',
  bundles: [],
  outputs: [record('kept', 'kept'), record('changed', 'old'), record('removed', 'r'), record('stays', 's')],
  pending: pendingOf(
    [record('changed', 'new'), record('added', 'added')],
    ['removed', 'stays', 'unrecorded'],
  ),
};
const without: Catalog = { ...catalog, pending: null };
const truth = (text: string): { size: number; digest: ReturnType<typeof digestOf> } => ({
  size: Buffer.byteLength(text),
  digest: digestOf(text),
});

t.test('reads paths that the attempt touched, except handled and unrecorded ones', async (t) => {
  t.same(pathsToSettle(catalog, new Set()).sort(), ['added', 'changed', 'removed', 'stays']);
  t.same(pathsToSettle(catalog, new Set(['changed', 'stays'])).sort(), ['added', 'removed']);
  t.same(pathsToSettle(without, new Set()), []);
});

t.test('missing files lose their records, and others are recorded with their content', async (t) => {
  const observed = new Map([
    ['changed', truth('new')],
    ['added', null],
    ['removed', null],
    ['stays', truth('something else')],
  ]);
  const settled = settle(catalog, observed);
  t.same(
    settled.map(({ path, digest, size }) => [path, digest, size]),
    [
      ['kept', digestOf('kept'), 4],
      ['changed', digestOf('new'), 3],
      ['stays', digestOf('something else'), 14],
    ],
  );
});

t.test('unexpected content keeps the old record without its generator', async (t) => {
  const [, changed] = settle(catalog, new Map([['changed', truth('half')]]));
  t.match(changed, { path: 'changed', digest: digestOf('half'), size: 4 });
  const added = settle(catalog, new Map([['added', truth('half')]])).at(-1);
  t.match(added, { path: 'added', digest: digestOf('half'), size: 4 });
});

t.test('an altered generated file loses the generator in its record', async (t) => {
  const generator = { name: 'index', version: 1, inputs: digestOf('inputs') };
  const page = record('index.html', 'page');
  const headers = { contentType: 'text/html', cacheControl: 'no-cache' };
  const generated: OutputRecord = { ...page, generated: { ...headers, generator } };
  const interrupted: Catalog = { ...catalog, outputs: [generated], pending: pendingOf([generated], []) };
  const settled = (text: string): OutputRecord | undefined =>
    settle(interrupted, new Map([['index.html', truth(text)]]))[0];
  t.same(settled('page')?.generated.generator, generator);
  const altered = { ...generated.generated, generator: null };
  t.same(settled('altered'), { ...generated, ...truth('altered'), generated: altered });
});

t.test('finished outputs get their announced record, and unrecorded files get none', async (t) => {
  const theirs = { ...record('changed', 'new'), updatedAt: '2026-11-21T00:00:00Z', url: 'https://new.test/' };
  const interrupted: Catalog = { ...catalog, pending: pendingOf([theirs], []) };
  const [, changed] = settle(interrupted, new Map([['changed', truth('new')]]));
  t.same(changed, theirs);
  const [, kept] = settle(interrupted, new Map([['changed', truth('old')]]));
  t.same(kept, record('changed', 'old'), 'the old bytes keep the old record');
  t.same(settle(catalog, new Map([['stranger', truth('x')]])), catalog.outputs);
  t.same(settle(without, new Map()), without.outputs);
});

t.test('settling reads the files, skips handled ones and lists missing ones', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, 'changed', 'new');
  await put(storage, 'stays', 's');
  const { outputs, vanished } = await settleInterrupted(storage, catalog, new Set(['stays']));
  t.same(
    outputs.map(({ path }) => path),
    ['kept', 'changed'],
  );
  t.same(vanished.sort(), ['added', 'removed']);
  t.same(await settleInterrupted(storage, without), { outputs: without.outputs, vanished: [] });
});

t.test('sweeps unfinished files only on object stores', async (t) => {
  for (const [flavour, left] of [
    ['objects', []],
    ['files', ['added']],
  ] as const) {
    const storage = memoryStorage({ flavour });
    await put(storage, 'added', 'part');
    await sweepUnfinished(storage, [listedKey('added')]);
    t.same([...(await snapshot(storage)).keys()], left);
  }
});

t.test('recorded paths include the announced ones', async (t) => {
  t.same([...recordedPaths({ kind: 'valid', catalog })].sort(), [
    'added',
    'changed',
    'kept',
    'removed',
    'stays',
    'unrecorded',
  ]);
  t.same([...intentPaths(catalog.pending)].sort(), ['added', 'changed', 'removed', 'stays', 'unrecorded']);
  t.equal(intentPaths(null).size, 0);
  t.equal(recordedPaths({ kind: 'absent' }).size, 0);
  t.equal(recordedPaths({ kind: 'invalid', reason: 'x' }).size, 0);
  const legacy = {
    kind: 'legacy' as const,
    version: 2 as const,
    records: [{ path: 'a' as RelativePath, v3: null }],
  };
  t.same([...recordedPaths(legacy)], ['a']);
});
