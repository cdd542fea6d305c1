import t, { type Test } from 'tap';
import type { DestinationConfig } from '../../../src/core/config/config.ts';
import { prune } from '../../../src/core/maintain/prune.ts';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import { verify } from '../../../src/core/maintain/verify.ts';
import { bundlesInFeed, type ListedBundle, maxListed } from '../../../src/core/outputs/json-feed.ts';
import { unpublishListed } from '../../../src/core/publish/root-index/listed-changes.ts';
import { rebuildRootIndex, refreshIfListed } from '../../../src/core/publish/root-index/update-root-index.ts';
import { bundlePlace } from '../../../src/core/releases/bundle-place.ts';
import { switchAt } from '../../../src/core/releases/switch-at.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { stepsOf, withoutIds } from '../../faults/steps.ts';
import { distinctKinds, type Fault, type FaultLog, withFaults } from '../../faults/with-faults.ts';
import {
  catalogMismatches,
  contextWith,
  destinationOf,
  newWorld,
  owner,
  put,
  snapshot,
  stateOf,
  testClock,
  type World,
  worldKinds,
} from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';
import { type Case, walkCases } from '../../support/sampling.ts';
import { type Settings, Stand } from './stand.ts';

/*
 * The index of a root always matches the catalogs of its bundles, whatever fails. Everything that it lists
 * exists, and foreign files are not changed.
 */

const settings = { rootIndex: true, publicBaseUrl: 'https://maps.example.org/' } satisfies Settings;
const names = ['feed.json', 'feed.xml', 'index.html'];

async function standAt(web: Storage, ...bundles: string[]): Promise<Stand> {
  const stand = new Stand();
  stand.web = web;
  for (const name of bundles) await stand.add(name, { 'a.txt': `of ${name}`, 'index.html': name });
  return stand;
}

async function drop(stand: Stand, name: string): Promise<void> {
  for (const file of ['manifest.json', 'a.txt', 'index.html'])
    await stand.source.remove(listedKey(`${name}/${file}`));
}

function listedIn(files: ReadonlyMap<string, string>): readonly ListedBundle[] {
  const feed = files.get('feed.json');
  return feed === undefined ? [] : (bundlesInFeed(feed) ?? []);
}

function pathsIn(files: ReadonlyMap<string, string>): string[] {
  return listedIn(files).map(({ path }) => path);
}

/** Links of the index to missing files. */
function deadIn(files: ReadonlyMap<string, string>): string[] {
  return listedIn(files).flatMap(({ page }) => (files.has(page) ? [] : [page]));
}

/** Only the root has these. */
function litterIn(files: ReadonlyMap<string, string>): string[] {
  return [...files.keys()].filter((name) => /^\.publisher(?!\.json$)/.test(name));
}

function destination(more: Partial<DestinationConfig> = {}): DestinationConfig {
  return { ...destinationOf('replacement'), ...settings, ...more };
}

for (const kind of worldKinds)
  t.test(`${kind}: lists the newest bundles, and a second run writes nothing`, async (t) => {
    const web = await newWorld(kind, t).open();
    const stand = await standAt(web, 'one', 'two/deep');
    t.match(await stand.run(settings), { status: 'ok', destinations: [{ warnings: { length: 0 } }] });
    const files = await snapshot(web);
    t.strictSame(pathsIn(files).toSorted(), ['one', 'two/deep']);
    t.match(files.get('index.html'), 'href="./two/deep/index.html"');
    t.match(files.get('feed.xml'), 'href="https://maps.example.org/two/deep/index.html"');
    t.match(await stateOf(web, ''), { kind: 'valid', catalog: { generation: 1, outputs: { length: 3 } } });
    t.strictSame(litterIn(files), []);

    const log: FaultLog = { operations: [], fired: false, mutations: 0 };
    stand.web = withFaults(web, null, log);
    t.equal((await stand.run(settings)).status, 'ok');
    t.equal(log.mutations, 0, 'no changes');
    stand.web = web;
    await stand.add('three', { 'a.txt': '3' });
    await stand.run(settings);
    const now = await snapshot(web);
    t.strictSame(pathsIn(now).toSorted(), ['one', 'three', 'two/deep']);
    t.match(now.get('index.html'), 'href="./three/a.txt"', 'the first file if there is no page');
    t.match(await verify(web, { concurrency: 1 }), { length: 4 }, 'verified like any other bundle path');
  });

interface Walked {
  /** Prepares the destination. Returns the work that the faults interrupt. */
  prepare: (web: Storage) => Promise<Stand>;
  settings: Settings;
  paths: string[];
}

const walks: Record<string, Walked> = {
  'the first index': {
    prepare: (web) => standAt(web, 'one', 'two'),
    settings,
    paths: ['one', 'two'],
  },
  'one more bundle': {
    prepare: async (web) => {
      const stand = await standAt(web, 'one');
      await stand.run(settings);
      await stand.add('two', { 'index.html': '2' });
      return stand;
    },
    settings,
    paths: ['one', 'two'],
  },
  'an orphan goes': {
    prepare: async (web) => {
      const stand = await standAt(web, 'one', 'two');
      await stand.run(settings);
      await drop(stand, 'two');
      return stand;
    },
    settings: { ...settings, orphans: 'remove' },
    paths: ['one'],
  },
  'other layout': {
    prepare: async (web) => {
      const stand = await standAt(web, 'one');
      await stand.run(settings);
      return stand;
    },
    settings: { ...settings, publicBaseUrl: 'https://elsewhere.example.org/' },
    paths: ['one'],
  },
};

async function wrongAfter(world: World, walked: Walked, fault: Fault): Promise<string[]> {
  const open = await world.open();
  const stand = await walked.prepare(open);
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  stand.web = withFaults(open, fault, log);
  await stand.run(walked.settings);
  const wrong = log.fired ? [] : ['the fault never fired'];
  const dead = deadIn(await world.files());
  if (dead.length > 0) wrong.push(`listed and missing: ${dead.join()}`);
  stand.web = await world.open();
  const rerun = await stand.run(walked.settings);
  const files = (await world.files()) as Map<string, string>;
  const isWhole =
    rerun.status === 'ok' &&
    deadIn(files).length === 0 &&
    litterIn(files).length === 0 &&
    (await catalogMismatches(stand.web, '')).length === 0 &&
    names.every((name) => files.has(name)) &&
    JSON.stringify(pathsIn(files).toSorted()) === JSON.stringify(walked.paths);
  if (!isWhole)
    wrong.push(`the rerun: ${JSON.stringify({ rerun, listed: pathsIn(files), leftovers: litterIn(files) })}`);
  await world.drop?.();
  return wrong;
}

const cases: Case[] = [];
for (const kind of worldKinds)
  for (const [name, walked] of Object.entries(walks))
    t.test(`${kind}: ${name}, undisturbed`, async (test) => {
      const open = await newWorld(kind, test).open();
      const stand = await walked.prepare(open);
      const log: FaultLog = { operations: [], fired: false, mutations: 0 };
      stand.web = withFaults(open, null, log);
      test.equal((await stand.run(walked.settings)).status, 'ok');
      const steps = stepsOf(log.operations);
      for (const [index, operation] of log.operations.entries())
        for (const fault of distinctKinds(operation)) {
          const at = index + 1;
          cases.push({
            name: `${kind}: ${name}, ${fault} at ${at}, ${withoutIds(operation)}`,
            stratum: `${kind}: ${steps[index] as string}`,
            run: async () =>
              wrongAfter(newWorld(kind, t), walked, { kind: fault, at, code: 'storage_transient' }),
          });
        }
    });

t.test('after every fault, the index lists the published bundles', async (t) => {
  t.ok(cases.length > 1000, `${cases.length} fault points`);
  await walkCases(t, cases, { what: 'fault points (index of the root, memory and local)' });
});

t.test('keeps foreign files at the root', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  await put(web, 'index.html', 'mine');
  const stand = await standAt(web, 'one');
  const result = await stand.run(settings);
  t.match(result, {
    status: 'ok',
    destinations: [
      { warnings: [{ code: 'root_index_refused', message: /an unrecorded file "index.html"/ }] },
    ],
  });
  const files = await snapshot(web);
  t.equal(files.get('index.html'), 'mine');
  t.notOk(files.has('feed.xml'));
  t.ok(files.has('one/a.txt'), 'the bundle is published');
});

t.test('a second owner at the same root gets no index', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  await (await standAt(web, 'one')).run(settings);
  const before = await snapshot(web);
  const result = await (await standAt(web, 'theirs')).run({ ...settings, id: 'other' });
  t.match(result.destinations[0]?.warnings, [
    { code: 'root_index_refused', message: /belongs to maps\/web/ },
  ]);
  for (const name of names) t.equal((await snapshot(web)).get(name), before.get(name), name);
});

t.test('rejects a bundle at the root as the place of an index', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand();
  stand.web = web;
  await put(stand.source, 'a.txt', 'a');
  await put(
    stand.source,
    'manifest.json',
    JSON.stringify({ created: '2026-11-20T00:00:00Z', files: ['a.txt'] }),
  );
  const result = await stand.run(settings);
  t.match(result.destinations[0]?.warnings, [{ code: 'root_index_refused', message: /at the root itself/ }]);
  t.strictSame([...(await snapshot(web)).keys()].toSorted(), ['.publisher.json', 'a.txt']);
});

t.test('a dry run writes no index, and neither does a destination without the setting', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = await standAt(web, 'one');
  await stand.run({ ...settings, request: { dryRun: true } });
  t.equal((await snapshot(web)).size, 0);
  await stand.run();
  t.notOk((await snapshot(web)).has('index.html'));
});

t.test('the next run restores a missing or changed file of the index', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = await standAt(web, 'one', 'two');
  await stand.run(settings);
  const before = await snapshot(web);
  for (const name of names) {
    await web.remove(listedKey(name));
    await stand.run(settings);
    t.equal((await snapshot(web)).get(name), before.get(name), name);
  }
  await put(web, 'feed.json', before.get('feed.json')?.replace('one', 'wrong') ?? '');
  await stand.run(settings);
  t.strictSame(pathsIn(await snapshot(web)), ['one', 'two'], 'an unrecorded bundle is not listed');
});

t.test('an unpublished bundle leaves the index, and the last one removes it', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  await (await standAt(web, 'one', 'two')).run(settings);
  const context = contextWith(testClock());
  const request = { owner, maxRemoved: null, concurrency: 1, dryRun: false };
  await unpublishListed(context, web, destination(), { ...request, destinationPath: 'one', dryRun: true });
  t.strictSame(pathsIn(await snapshot(web)), ['one', 'two'], 'a dry run');
  await unpublishListed(context, web, destination(), { ...request, destinationPath: 'one' });
  t.strictSame(pathsIn(await snapshot(web)), ['two']);
  await t.rejects(unpublishListed(context, web, destination(), { ...request, destinationPath: 'one' }), {
    code: 'not_published',
  });
  const refused = { ...request, maxRemoved: 1, destinationPath: 'two' } as never;
  await t.rejects(unpublishListed(context, web, destination(), refused));
  t.strictSame(pathsIn(await snapshot(web)), ['two'], 'the remaining bundle is listed');
  await unpublishListed(context, web, destination(), { ...request, destinationPath: 'two' });
  t.strictSame([...(await snapshot(web)).keys()], []);
});

t.test('unpublishing the root removes an index that was turned off', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  await (await standAt(web, 'one')).run(settings);
  const request = { owner, maxRemoved: null, concurrency: 1, dryRun: false, destinationPath: '.' };
  await unpublishListed(contextWith(testClock()), web, destination({ rootIndex: false }), request);
  t.strictSame([...(await snapshot(web)).keys()].toSorted(), [
    'one/.publisher.json',
    'one/a.txt',
    'one/index.html',
  ]);
});

t.test('prune keeps the index and updates it', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  await (await standAt(web, 'one', 'two')).run(settings);
  const context = contextWith(testClock());
  const policy = { enabled: true, keepLatest: 1, olderThanMs: null };
  const { removed } = await prune(context, web, { owner, policy, maxRemoved: null, dryRun: false });
  t.equal(removed.length, 3, 'of four files of bundles');
  const paths = removed.map(({ destinationPath }) => destinationPath);
  t.strictSame(
    await refreshIfListed(context, web, { owner, destination: destination() }, paths, { dryRun: false }),
    [],
  );
  t.match(listedIn(await snapshot(web)), [{ path: 'one', outputs: 1, page: 'one/a.txt' }]);
});

t.test('with releases, links lead to the current one and follow a rollback', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const releases = { keep: 5, lingerMs: 0, currentInUrl: true, channels: [] };
  const more = { ...settings, releases };
  const stand = await standAt(web, 'one');
  await stand.run(more);
  t.match(listedIn(await snapshot(web)), [{ path: 'one', outputs: 2, page: 'one/current/index.html' }]);
  await stand.add('one', { 'a.txt': 'other', 'index.html': 'one', 'more.txt': 'm' }, '2026-11-22T00:00:00Z');
  await stand.run(more);
  t.match(listedIn(await snapshot(web)), [{ outputs: 3, created: '2026-11-22T00:00:00.000Z' }]);
  const context = contextWith(testClock());
  await switchAt(context, owner, bundlePlace(web, 'one'), { verb: 'rollback', dryRun: false });
  const index = { owner, destination: destination({ releases }) };
  await refreshIfListed(context, web, index, ['one'], { dryRun: false });
  t.match(listedIn(await snapshot(web)), [{ outputs: 2, created: '2026-11-20T00:00:00.000Z' }]);
  const reports = await reconcile(context, web, { owner, dryRun: true, allOwners: false });
  t.strictSame(
    reports.flatMap(({ unmanaged, missing }) => [...unmanaged, ...missing]),
    [],
    'the pointer does not count as content of the root',
  );
  await stand.run(more);
  t.match(listedIn(await snapshot(web)), [{ outputs: 2 }], 'held-back bundles are not listed');
});

t.test('after an unpublication, a full list includes the next bundle', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const bundles = Array.from({ length: maxListed + 2 }, (_, index) => `b${String(index).padStart(3, '0')}`);
  await (await standAt(web, ...bundles)).run(settings);
  t.strictSame(pathsIn(await snapshot(web)), bundles.slice(0, maxListed));
  const request = { owner, maxRemoved: null, concurrency: 1, dryRun: false, destinationPath: 'b001' };
  await unpublishListed(contextWith(testClock()), web, destination(), request);
  t.strictSame(
    pathsIn(await snapshot(web)),
    bundles.slice(0, maxListed + 1).filter((name) => name !== 'b001'),
  );
});

t.test('two concurrent updates lose nothing', async (t) => {
  for (const kind of ['memory files', 'memory objects'] as const) {
    const world = newWorld(kind, t);
    const bundles = ['a', 'b', 'c', 'd', 'e', 'f'];
    await (await standAt(await world.open(), 'first')).run(settings);
    const worlds = await Promise.all(bundles.map(async (name) => standAt(await world.open(), name)));
    await Promise.all(worlds.map((stand) => runUntilFree(t, stand)));
    t.strictSame(
      pathsIn((await world.files()) as Map<string, string>).toSorted(),
      [...bundles, 'first'],
      kind,
    );
  }
});

/**
 * Repeats the run while another publisher holds the lease for too long. The clock of a stand does not wait
 * for the others, which need real time to read templates.
 */
async function runUntilFree(t: Test, stand: Stand): Promise<void> {
  for (;;) {
    const { destinations } = await stand.run(settings);
    const errors = destinations.flatMap(({ error, actions }) => [
      error,
      ...actions.map((each) => each.error),
    ]);
    const codes = errors.flatMap((error) => error?.code ?? []);
    if (codes.length === 0) return;
    t.ok(
      codes.every((code) => ['destination_busy', 'lease_lost'].includes(code)),
      codes.join(),
    );
  }
}

t.test('reconciling rebuilds the index', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = await standAt(web, 'one', 'two');
  await stand.run();
  t.notOk((await snapshot(web)).has('feed.xml'));
  await rebuildRootIndex(contextWith(testClock()), web, { owner, destination: destination() });
  t.strictSame(pathsIn(await snapshot(web)), ['one', 'two']);
});

t.test('names are text, never markup', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const hostile = `<script>alert(1)</script> & "q"`;
  await (await standAt(web, hostile.replaceAll('/', '_'))).run({ ...settings, publicBaseUrl: null });
  const files = await snapshot(web);
  for (const name of ['index.html', 'feed.xml']) {
    t.notMatch(files.get(name), '<script>', name);
    t.match(files.get(name), '&lt;script&gt;', name);
  }
});
