import t from 'tap';
import type { Catalog, OutputRecord, Pending } from '../../../../src/core/catalog/catalog.ts';
import { serialiseCatalog } from '../../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { pathWithin, type RelativePath } from '../../../../src/core/lib/paths.ts';
import type { AppliedPaths } from '../../../../src/core/publish/apply/apply.ts';
import { fillRelease } from '../../../../src/core/publish/layouts/fill-release.ts';
import type { PlannedOutput } from '../../../../src/core/publish/plan.ts';
import type { PublishRequest } from '../../../../src/core/publish/publish-request.ts';
import type { Progress } from '../../../../src/core/publish/results/result.ts';
import { releaseKey } from '../../../../src/core/releases/release.ts';
import { releaseStorage } from '../../../../src/core/releases/stored-releases.ts';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Change, Storage } from '../../../../src/core/storage/storage.ts';
import { releaseIdFor } from '../../../faults/release-world.ts';
import { bundleOf, contextWith, owner, put, snapshot, stateOf, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Writes in the directory of a release that may have files of an earlier attempt. */

const at = '2026-11-20T00:00:00.000Z';
const context = contextWith(testClock());
const { identity: source, created } = bundleOf({});
const [id, former] = await Promise.all([releaseIdFor(1), releaseIdFor(0)]);
const directory = releaseKey(id);
const state = `${directory}/.publisher.json`;

const wanted = { a: 'text of a', b: 'text of b', 'd/c': 'text of c' };

function output(path: string, text: string): PlannedOutput {
  return { ...record(path, text), body: bytesBody(text) };
}

function record(path: string, text = 'stale'): Omit<OutputRecord, 'updatedAt'> & { updatedAt: string } {
  return {
    ...{ path: path as RelativePath, owner, source, kind: 'file', digest: digestOf(text), size: text.length },
    ...{ updatedAt: at, url: null, generated: { contentType: null, cacheControl: null, generator: null } },
  };
}

interface Filling {
  files?: Record<string, string>;
  same?: string[];
  request?: Pick<PublishRequest, 'onProgress'>;
  signal?: AbortSignal;
  current?: typeof id;
}

async function fill(
  root: Storage,
  { files = wanted, same = [], ...more }: Filling = {},
): Promise<AppliedPaths> {
  const { request = {}, signal, current } = more;
  const content = Object.entries(files).map(([path, text]) => output(path, text));
  const filling = {
    release: { id, content, same: new Set(same) },
    plan: { owner, bundle: { source, created } },
    ...{ base: current == null ? null : releaseKey(current), destinationPath: `site/${directory}` },
    destination: { id: 'web', fileConcurrency: 1 },
  };
  return fillRelease({ ...context, ...(signal !== undefined && { signal }) }, root, filling, request);
}

async function putCatalog(root: Storage, parts: Partial<Catalog>): Promise<number> {
  const bundles = [{ owner, source, created, digest: digestOf('') } as unknown as Catalog['bundles'][0]];
  const catalog: Catalog = { generation: 1, updatedAt: at, bundles, outputs: [], pending: null, ...parts };
  const bytes = serialiseCatalog(catalog);
  await root.write(listedKey(state), bytesBody(bytes.toString()), { mode: 'replace' });
  return bytes.byteLength;
}

function pendingOf(outputs: OutputRecord[], removes: string[] = []): Pending {
  return {
    ...{ attemptId: 'x', owner, action: 'publish_new', startedAt: at, holder: null, renewals: 0 },
    ...{ outputs, removes: removes.map((name) => listedKey(name)) },
  };
}

interface Seen {
  changes: Change[];
  removed: string[];
  intents: unknown[];
  /** The record next to each intent. With it, a kill loses nothing. */
  recorded: string[][];
}

function watched(inner: Storage): { root: Storage; seen: Seen } {
  const seen: Seen = { changes: [], removed: [], intents: [], recorded: [] };
  const root: Storage = {
    ...inner,
    async obstacleTo(change) {
      seen.changes.push(change);
      return inner.obstacleTo(change);
    },
    async remove(key, options) {
      if (!key.includes('.publisher')) seen.removed.push(key);
      await inner.remove(key, options);
    },
    async write(key, body, options) {
      const written = await inner.write(key, body, options);
      if (!key.includes('.publisher.json') && !key.includes('state-')) return written;
      const { outputs, pending } = JSON.parse((await readAll(inner, key, 1 << 20)).toString()) as {
        outputs: { path: string }[];
        pending: { action: string; outputs: { path: string }[]; removes: string[] } | null;
      };
      if (pending === null) return written;
      seen.intents.push([pending.action, pending.outputs.map(({ path }) => path), pending.removes]);
      seen.recorded.push(outputs.map(({ path }) => path));
      return written;
    },
  };
  return { root, seen };
}

async function filesIn(root: Storage): Promise<Record<string, string>> {
  const files = await snapshot(releaseStorage(root, id));
  return Object.fromEntries([...files].filter(([name]) => !name.includes('.publisher')).sort());
}

async function complete(root: Storage): Promise<void> {
  for (const [name, text] of Object.entries(wanted)) await put(root, `${directory}/${name}`, text);
}

const all = Object.keys(wanted);
const records = Object.entries(wanted).map(([path, text]) => record(path, text));
const torn = { a: 'torn!of a', b: 'torn!of b', 'd/c': 'torn!of c' };

t.test('an empty directory gets all files, after a check for free space', async (t) => {
  const { root, seen } = watched(memoryStorage({ flavour: 'files' }));
  const { written, linked } = await fill(root);
  t.same([[...written], [...linked]], [all, []]);
  t.same(await filesIn(root), wanted);
  t.same(seen.changes, [
    { writes: all.map((name) => `${directory}/${name}`), removes: [], from: directory, bytes: 27 },
  ]);
  t.same(seen.intents, [['publish_new', all, []]]);
  const found = await stateOf(root, directory);
  t.match(found, { kind: 'valid', catalog: { generation: 1, pending: null } });
  t.same(found.kind === 'valid' && found.catalog.outputs.map(({ path, size }) => [path, size]), [
    ['a', 9],
    ['b', 9],
    ['d/c', 9],
  ]);
});

t.test('writes files without a matching record, and removes unplanned ones', async (t) => {
  const [a, b, c] = records as [OutputRecord, OutputRecord, OutputRecord];
  const one = record('z-stray');
  const two = record('m-stray');
  const cases: [string, Partial<Catalog>, string[], string[]][] = [
    ['all announced, nothing recorded', { pending: pendingOf(records) }, all, []],
    ['recorded, and announced by a repair', { outputs: records, pending: pendingOf([b]) }, ['b'], []],
    ['not recorded, and not announced', { outputs: [a, c] }, ['b'], []],
    ['recorded with other bytes', { outputs: [a, record('b', 'text of x'), c] }, ['b'], []],
    ['an intent alone', { outputs: records, pending: pendingOf([]) }, [], []],
    ['as much to write as to remove', { outputs: [a, c, one] }, ['b'], ['z-stray']],
    ['only to remove', { outputs: [...records, one] }, [], ['z-stray']],
    [
      'of an intent and of the records, in order',
      { outputs: [...records, one], pending: pendingOf([two], ['c-stray', 'b']) },
      ['b'],
      ['c-stray', 'm-stray', 'z-stray'],
    ],
  ];
  for (const [what, parts, writes, removes] of cases) {
    const inner = memoryStorage({ flavour: 'files' });
    for (const name of removes) await put(inner, `${directory}/${name}`, 'stray');
    for (const [name, text] of Object.entries(wanted))
      await put(inner, `${directory}/${name}`, writes.includes(name) ? torn[name as 'a'] : text);
    const stateBytes = await putCatalog(inner, parts);
    const { root, seen } = watched(inner);
    const { written, linked } = await fill(root);
    t.same([[...written], [...linked]], [writes, []], what);
    t.same(await filesIn(inner), wanted, what);
    t.same(
      seen.removed,
      removes.map((name) => `${directory}/${name}`),
      what,
    );
    t.match(await stateOf(root, directory), { catalog: { generation: 2, pending: null } }, what);
    t.same(seen.intents, [['replace_catalog', writes, removes]], what);
    const before = [...(parts.outputs ?? [])].map(({ path }) => path as string).sort();
    t.same(seen.recorded, [before], what);
    t.same(
      seen.changes.map(({ bytes }) => bytes),
      [stateBytes + 9 * writes.length],
      what,
    );
  }
});

t.test('does not change a complete release, and writes missing files', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await complete(root);
  await putCatalog(root, { outputs: records });
  const before = await snapshot(root);
  const { written, linked } = await fill(root);
  t.same([[...written], [...linked]], [[], []]);
  t.same(await snapshot(root), before, 'including its catalog');
  await root.remove(listedKey(`${directory}/d/c`));
  t.same([...(await fill(root)).written], ['d/c']);
  t.same(await filesIn(root), wanted);
});

t.test('files without a catalog are foreign', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await put(root, `${directory}/.publisher.tmp/x/output-0`, 'staged');
  await put(root, `${directory}/deep/diary.txt`, 'mine');
  await t.rejects(fill(root), {
    code: 'unmanaged_content',
    message: `"site/${directory}" has the file "deep/diary.txt" but no catalog: waybill did not publish it`,
  });
  t.same(await filesIn(root), { 'deep/diary.txt': 'mine' });
});

t.test('progress: bytes and outputs as they are written, and linked ones immediately', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await put(root, `${releaseKey(former)}/b`, wanted.b);
  const progress: Progress[] = [];
  const request = { onProgress: (each: Progress) => void progress.push(each) };
  const { written, linked } = await fill(root, { current: former, same: ['b'], request });
  t.same([[...written], [...linked]], [['a', 'd/c'], ['b']]);
  const web = { destinationId: 'web' };
  t.same(
    progress.filter(({ type }) => type === 'bytes'),
    Array.from({ length: 3 }, () => ({ type: 'bytes', ...web, count: 9 })),
  );
  t.same(
    progress.filter(({ type }) => type !== 'bytes'),
    all.map((path) => ({ type: 'output', ...web, path })),
  );
});

t.test('skips checks of names and space for files of the current release', async (t) => {
  const { root, seen } = watched(memoryStorage({ flavour: 'files' }));
  await put(root, `${releaseKey(former)}/b`, wanted.b);
  await fill(root, { current: former, same: ['b'] });
  t.same(
    seen.changes.map(({ writes, bytes }) => [writes, bytes]),
    [[[`${directory}/a`, `${directory}/d/c`], 18]],
  );
});

t.test('a stop in the middle restores everything', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const stop = new AbortController();
  const root: Storage = {
    ...inner,
    async write(key, body, options) {
      if (key.includes('/output-')) stop.abort(new Error('stopped'));
      return inner.write(key, body, options);
    },
  };
  await t.rejects(fill(root, { signal: stop.signal }), { message: /stopped/ });
  t.same([...(await snapshot(inner)).keys()], []);
});

t.test('joins a bundle path with a path inside it', (t) => {
  t.same([pathWithin('.', 'x'), pathWithin('a/b', 'x/y')], ['x', 'a/b/x/y']);
  t.end();
});
