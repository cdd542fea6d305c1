import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { lockText } from '../../../../src/core/catalog/lease/lock-file.ts';
import { markDead, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import { reconcile } from '../../../../src/core/maintain/reconcile.ts';
import { verify } from '../../../../src/core/maintain/verify.ts';
import { findOrphans } from '../../../../src/core/publish/orphans.ts';
import { unpublish } from '../../../../src/core/publish/unpublish/unpublish.ts';
import { currentLinkKey, type ReleaseId, releaseKey } from '../../../../src/core/releases/release.ts';
import { readReleases } from '../../../../src/core/releases/releases-store.ts';
import { releaseStorage } from '../../../../src/core/releases/stored-releases.ts';
import { promote, resume, rollBack } from '../../../../src/core/releases/switch.ts';
import { joinKey, listedKey } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import {
  bundleFor,
  filesOf,
  litterBelow,
  lookAtReleases,
  publishAsRelease,
  releaseIdFor,
  site,
  siteOf,
  takeDown,
} from '../../../faults/release-world.ts';
import { withFaults } from '../../../faults/with-faults.ts';
import { contextWith, newWorld, otherOwner, owner, put, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const how = { dryRun: false };
const context = contextWith(testClock());
const kinds = ['memory files', 'memory objects', 'local'] as const;

const currentOf = async (root: Storage): Promise<ReleaseId | null> =>
  (await readReleases(siteOf(root))).current;

/** The files that readers see: each file of the current release with its text. */
async function asRead(root: Storage): Promise<Record<string, string>> {
  const current = await currentOf(root);
  if (current === null) return {};
  const files = await snapshot(releaseStorage(siteOf(root), current));
  return Object.fromEntries([...files].filter(([name]) => !name.includes('.publisher')).sort());
}

const sorted = (files: object): object => Object.fromEntries(Object.entries(files).sort());

for (const kind of kinds) {
  t.test(`${kind}: consecutive publications, and a run without changes`, async (t) => {
    const root = await newWorld(kind, t).open();
    const [first, second] = [await releaseIdFor(0), await releaseIdFor(1)];
    t.match(await publishAsRelease(root, 0), {
      ...{ action: 'publish_new', release: first, error: null, destinationPath: site },
      ...{ outputsWritten: 4, outputsLinked: 0, outputsKept: 0, outputsRemoved: 0 },
    });
    t.same(await asRead(root), sorted(filesOf(0)));
    const done = await publishAsRelease(root, 1);
    t.match(done, { action: 'replace_catalog', release: second, error: null });
    t.match(done, { outputsWritten: 3, outputsLinked: 1, outputsKept: 0, outputsRemoved: 1 });
    t.same([done.bytesWritten, done.bytesLinked, done.bytesKept], [6 + 8 + 1, 16, 0]);
    t.same(await asRead(root), sorted(filesOf(1)));
    const before = await snapshot(root);
    t.match(await publishAsRelease(root, 1), {
      ...{ action: 'skip_same', release: second, outputsKept: 4, outputsLinked: 0, outputsWritten: 0 },
    });
    t.same(await snapshot(root), before, 'nothing was written');
    t.same(await litterBelow(root), []);
  });

  t.test(`${kind}: a dry run names the release, and writes nothing`, async (t) => {
    const root = await newWorld(kind, t).open();
    t.match(await publishAsRelease(root, 0, { dryRun: true }), {
      ...{ action: 'publish_new', release: await releaseIdFor(0), outputsWritten: 0, error: null },
    });
    t.same([...(await snapshot(root)).keys()], []);
    await publishAsRelease(root, 0);
    const before = await snapshot(root);
    const predicted = await publishAsRelease(root, 1, { dryRun: true });
    t.match(predicted, { action: 'replace_catalog', release: await releaseIdFor(1), error: null });
    t.same(
      predicted.changes.map(({ path, fate }) => `${fate} ${path}`),
      [
        'change assets/app.js',
        'keep assets/style.css',
        'change index.html',
        'add only-1.txt',
        'remove only-0.txt',
      ],
    );
    t.same(await snapshot(root), before);
    t.same((await publishAsRelease(root, 1)).changes, predicted.changes, 'the same as in the run');
  });

  t.test(
    `${kind}: a run does not reactivate a rolled back release, but publishes another bundle`,
    async (t) => {
      const root = await newWorld(kind, t).open();
      const ids = [await releaseIdFor(0), await releaseIdFor(1), await releaseIdFor(2)] as const;
      await publishAsRelease(root, 0);
      await publishAsRelease(root, 1);
      await rollBack(context, siteOf(root), null, how);
      for (const dryRun of [true, false]) {
        const held = await publishAsRelease(root, 1, { dryRun });
        t.match(held, { action: 'skip_same', reason: { code: 'rolled_back' }, release: ids[1], error: null });
        t.same([held.outputsKept, held.outputsWritten, held.outputsLinked], [0, 0, 0]);
      }
      t.equal(await currentOf(root), ids[0]);
      t.match(await publishAsRelease(root, 2), { action: 'replace_catalog', release: ids[2] });
      t.equal(await currentOf(root), ids[2]);
      await rollBack(context, siteOf(root), ids[0], how);
      await resume(context, siteOf(root), how);
      const again = await publishAsRelease(root, 2);
      t.match(again, { action: 'replace_catalog', release: ids[2], outputsKept: 4, outputsWritten: 0 });
      t.equal(await currentOf(root), ids[2], 'it already existed');
      await promote(context, siteOf(root), ids[1], how);
      t.match(await publishAsRelease(root, 1), { action: 'skip_same', reason: { code: 'all_recorded' } });
    },
  );

  t.test(
    `${kind}: an additive publication carries over outputs, and recognizes a rolled back release`,
    async (t) => {
      const root = await newWorld(kind, t).open();
      const additive = { workflow: 'additive' } as const;
      await publishAsRelease(root, 0, additive);
      const done = await publishAsRelease(root, 1, additive);
      t.match(done, { action: 'upsert_additive', outputsWritten: 3, outputsLinked: 1, outputsRemoved: 0 });
      t.same(await asRead(root), sorted({ ...filesOf(0), ...filesOf(1) }));
      await publishAsRelease(root, 2, additive);
      await rollBack(context, siteOf(root), done.release as ReleaseId, how);
      await rollBack(context, siteOf(root), null, how);
      t.match(await publishAsRelease(root, 2, additive), { reason: { code: 'rolled_back' } });
      t.match(await publishAsRelease(root, 1, additive), { reason: { code: 'rolled_back' } });
      t.match(await publishAsRelease(root, 3, additive), { action: 'upsert_additive', error: null });
    },
  );

  t.test(`${kind}: writes files that are missing in the current release, and never links them`, async (t) => {
    const root = await newWorld(kind, t).open();
    await publishAsRelease(root, 0);
    const current = releaseKey((await currentOf(root)) as ReleaseId);
    await siteOf(root).remove(joinKey(current, 'assets/style.css'));
    const done = await publishAsRelease(root, 1);
    t.match(done, { outputsWritten: 4, outputsLinked: 0, error: null });
    t.match(
      done.changes.find(({ path }) => path === 'assets/style.css'),
      { fate: 'add', why: 'missing' },
    );
    t.same(await asRead(root), sorted(filesOf(1)));
  });

  t.test(`${kind}: republishing completes a damaged release`, async (t) => {
    const root = await newWorld(kind, t).open();
    await publishAsRelease(root, 0);
    await publishAsRelease(root, 1);
    await siteOf(root).remove(joinKey(releaseKey(await releaseIdFor(0)), 'index.html'));
    t.match(await publishAsRelease(root, 0), {
      release: await releaseIdFor(0),
      outputsWritten: 1,
      error: null,
    });
    t.same(await asRead(root), sorted(filesOf(0)));
  });

  t.test(`${kind}: removes old releases and keeps the last good one`, async (t) => {
    const root = await newWorld(kind, t).open();
    for (const n of [0, 1, 2, 3]) t.match(await publishAsRelease(root, n, { keep: 1 }), { error: null });
    const ids = await Promise.all([2, 3].map(async (n) => releaseIdFor(n)));
    t.same((await lookAtReleases(root)).stored, ids);
    t.match(await publishAsRelease(root, 3, { keep: 0 }), { action: 'skip_same' });
    t.same((await lookAtReleases(root)).stored, ids, 'a rollback could need it');
  });

  t.test(`${kind}: a run without changes finishes an interrupted removal`, async (t) => {
    const world = newWorld(kind, t);
    const root = await world.open();
    for (const n of [0, 1, 2]) await publishAsRelease(root, n);
    const log = { operations: [] as string[], fired: false, mutations: 0 };
    const count = { operations: [] as string[], fired: false, mutations: 0 };
    const copy = await (await world.fork()).open();
    await publishAsRelease(withFaults(copy, null, count), 3, { keep: 1 });
    const at = count.operations.findLastIndex(
      (name) => name.includes('remove') && name.includes('.publisher.json'),
    );
    t.ok(at > 0, 'the catalog of a release is removed last');
    await publishAsRelease(
      withFaults(root, { kind: 'crash', at: at + 1, code: 'storage_transient' }, log),
      3,
      {
        keep: 1,
      },
    );
    t.ok(log.fired);
    t.ok((await readReleases(siteOf(root))).ledger.removing.length > 0);
    t.match(await publishAsRelease(await world.open(), 3, { keep: 1 }), { action: 'skip_same', error: null });
    t.same((await readReleases(siteOf(root))).ledger.removing, []);
    t.same((await lookAtReleases(root)).stored, [await releaseIdFor(2), await releaseIdFor(3)]);
    t.same(await litterBelow(root), []);
  });

  t.test(`${kind}: only force replaces a release of another owner, and keeps it`, async (t) => {
    const root = await newWorld(kind, t).open();
    await publishAsRelease(root, 0, { as: otherOwner });
    const theirs = await currentOf(root);
    const refused = await publishAsRelease(root, 1);
    t.match(refused, { action: 'fail_unmanaged', reason: { code: 'release_of_other_owner' }, release: null });
    t.match(refused.error, { code: 'unmanaged_content', hint: /--force.*is kept/ });
    t.equal(await currentOf(root), theirs);
    t.match(await publishAsRelease(root, 1, { force: true }), { action: 'force_replace', error: null });
    t.same(await asRead(root), sorted(filesOf(1)));
    t.match(await rollBack(context, siteOf(root), null, how), { outcome: 'switched', to: theirs });
  });

  t.test(`${kind}: limits.max_removed counts the files that readers would lose`, async (t) => {
    const root = await newWorld(kind, t).open();
    await publishAsRelease(root, 0);
    const more = { limits: { maxRemoved: { count: 0 } } };
    t.match(await publishAsRelease(root, 1, { more }), { error: { code: 'too_many_removals' } });
    t.equal(await currentOf(root), await releaseIdFor(0));
  });

  t.test(`${kind}: rejects an older bundle if stale is refuse`, async (t) => {
    const root = await newWorld(kind, t).open();
    await publishAsRelease(root, 1);
    t.match(await publishAsRelease(root, 0, { more: { stale: 'refuse' } }), {
      error: { code: 'stale_bundle' },
    });
    t.match(await publishAsRelease(root, 0), { error: null });
  });

  t.test(
    `${kind}: verify reads all releases, reconcile removes no record, orphans are bundle paths`,
    async (t) => {
      const root = await newWorld(kind, t).open();
      await publishAsRelease(root, 0);
      await publishAsRelease(root, 1);
      const reports = await verify(root, { concurrency: 1 });
      t.same(
        reports.map(({ destinationPath, verified, differing }) => [
          destinationPath,
          verified,
          differing.length,
        ]),
        (await Promise.all([0, 1].map(releaseIdFor))).map((id) => [`${site}/${releaseKey(id)}`, 4, 0]),
      );
      const old = releaseStorage(siteOf(root), await releaseIdFor(0));
      await old.remove(listedKey('index.html'));
      const request = { owner, dryRun: false, allOwners: true };
      const [found] = await reconcile(context, root, request);
      t.match(found, {
        missing: [{ path: 'index.html', repaired: false }],
        unmanaged: { length: 0 },
        error: null,
      });
      t.equal((await reconcile(context, root, request)).length, 2, 'the pointer is not unmanaged');
      t.match(await rollBack(context, siteOf(root), null, how), {
        refusal: { why: 'damaged', path: 'index.html', others: 0 },
      });
      const from = { owner, source: { backend: 'local', id: '/source' } as const };
      const { orphans } = await findOrphans(root, from, new Set(['elsewhere']), { counted: false });
      t.match(orphans, [{ destinationPath: site, bundle: { source: { path: site } } }]);
      t.equal(orphans[0]?.outputs.length, 4, 'those of the current release');
      t.same((await findOrphans(root, from, new Set([site]), { counted: false })).orphans, []);
    },
  );

  t.test(`${kind}: unpublishing a bundle path removes its releases`, async (t) => {
    const root = await newWorld(kind, t).open();
    await put(root, 'elsewhere.txt', 'not ours');
    for (const n of [0, 1]) await publishAsRelease(root, n);
    const request = { owner, destinationPath: site, maxRemoved: null, dryRun: true, concurrency: 1 };
    const before = await snapshot(root);
    const ids = await Promise.all([0, 1].map(releaseIdFor));
    const report = await unpublish(context, root, request);
    t.match(report, { releases: ids, staying: { length: 0 }, outputs: Object.keys(filesOf(1)).sort() });
    t.same(await snapshot(root), before, 'a dry run');
    await t.rejects(unpublish(context, root, { ...request, owner: otherOwner }), { code: 'not_owned' });
    await t.rejects(
      unpublish(context, root, { ...request, destinationPath: `${site}/${releaseKey(ids[0] as ReleaseId)}` }),
      { code: 'usage', hint: /rollback/ },
    );
    t.same(await unpublish(context, root, { ...request, dryRun: false }), report);
    const left = kind === 'memory objects' ? [`${site}/current.json`] : [];
    t.same([...(await snapshot(root)).keys()].sort(), ['elsewhere.txt', ...left].sort());
    t.equal(await currentOf(root), null);
    t.ok(await takeDown(root), 'repeated');
    t.match(await publishAsRelease(root, 1), { action: 'publish_new', error: null });
    t.same(await asRead(root), sorted(filesOf(1)));
  });
}

t.test('two concurrent publications: the second decides again on the release of the first', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishAsRelease(root, 0, { workflow: 'additive' });
  let isFirst = true;
  const slow: Storage = delegate(root, {
    async rename(moves) {
      await root.rename!(moves);
      if (!isFirst || !moves.some(({ to }) => to.endsWith('index.html'))) return;
      isFirst = false;
      await publishAsRelease(root, 2, { workflow: 'additive' });
    },
  });
  const done = await publishAsRelease(slow, 1, { workflow: 'additive' });
  t.match(done, { action: 'upsert_additive', error: null });
  t.same(
    await asRead(root),
    sorted({ ...filesOf(0), ...filesOf(2), ...filesOf(1) }),
    'the files of both publications',
  );
});

t.test('publishes a release again that is being removed', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  for (const n of [0, 1, 2]) await publishAsRelease(root, n);
  // The state after a retention was killed that had already announced its removals.
  const { readFile, ledger } = await ledgerOf(root);
  await put(
    root,
    `${site}/.publisher.releases.json`,
    readFile.replace('"removing": []', `"removing": ["${await releaseIdFor(0)}"]`),
  );
  t.same(ledger.removing, []);
  t.match(await publishAsRelease(root, 0), { error: null, release: await releaseIdFor(0) });
  t.equal(await currentOf(root), await releaseIdFor(0));
  t.same(await asRead(root), sorted(filesOf(0)));
  t.same((await lookAtReleases(root)).wrong, []);
});

async function ledgerOf(root: Storage): Promise<{
  readFile: string;
  ledger: Awaited<ReturnType<typeof readReleases>>['ledger'];
}> {
  const files = await snapshot(root);
  const readFile = files.get(`${site}/.publisher.releases.json`) ?? '';
  return { readFile, ledger: (await readReleases(siteOf(root))).ledger };
}

async function directory(t: Test): Promise<{ root: Storage; at: (...names: string[]) => string }> {
  const base = t.testdir({});
  return { root: await localStorage(base), at: (...names) => path.join(base, ...names) };
}

t.test('sweeps leftovers of a killed publication in another directory during the next one', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishAsRelease(root, 0);
  const dead = newHolder();
  markDead(dead);
  const [locked, unlocked, alive] = await Promise.all(
    [1, 3, 4].map(async (n) => `${site}/${releaseKey(await releaseIdFor(n))}`),
  );
  await put(root, `${locked}/.publisher.lock`, lockText(dead, 0));
  const complete = `${site}/${releaseKey(await releaseIdFor(0))}`;
  await put(root, `${complete}/.publisher.lock`, lockText(dead, 0));
  await put(root, `${locked}/.publisher.tmp/attempt/state-1`, '{');
  await put(root, `${unlocked}/.publisher.tmp/write-1`, '{');
  const holder = newHolder();
  await put(root, `${alive}/.publisher.lock`, lockText(holder, 0));
  t.match(await publishAsRelease(root, 2), { error: null });
  t.same(await litterBelow(root), [`${alive}/.publisher.lock`]);
  markDead(holder);
  t.match(await publishAsRelease(root, 5), { error: null });
  t.same(await litterBelow(root), []);
});

t.test('in a directory: hard links, and a symbolic link to the current release', async (t) => {
  const { root, at } = await directory(t);
  await publishAsRelease(root, 0);
  await publishAsRelease(root, 1);
  const [first, second] = [await releaseIdFor(0), await releaseIdFor(1)];
  t.equal(readlinkSync(at(site, 'current')), `releases/${second}`);
  t.equal(readFileSync(at(site, 'current', 'index.html'), 'utf8'), 'page 1');
  const inode = (id: string): number => lstatSync(at(site, 'releases', id, 'assets', 'style.css')).ino;
  t.equal(inode(first), inode(second), 'one file with two names');
});

t.test('reports and keeps foreign pointers, directories and files', async (t) => {
  const { root, at } = await directory(t);
  mkdirSync(at(site, 'current'), { recursive: true });
  writeFileSync(at(site, 'current', 'mine.txt'), 'mine');
  t.match(await publishAsRelease(root, 0, { force: true }), {
    error: { code: 'unmanaged_content', message: /"current" is not a symbolic link/, hint: /move it away/ },
  });
  t.notOk(existsSync(at(site, 'releases')));

  const other = memoryStorage({ flavour: 'files' });
  await other.replaceLink!(joinKey(site, currentLinkKey), listedKey('elsewhere'));
  t.match(await publishAsRelease(other, 0), {
    error: { code: 'unmanaged_content', message: /leads to "elsewhere"/ },
  });

  const third = memoryStorage({ flavour: 'files' });
  await put(third, `${site}/${releaseKey(await releaseIdFor(0))}/diary.txt`, 'mine');
  t.match(await publishAsRelease(third, 0), {
    error: { code: 'unmanaged_content', message: /diary.txt/, hint: /move them away/ },
  });
});

t.test('refuses a current release with a broken catalog, and adds a new one with force', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishAsRelease(root, 0);
  const broken = `${site}/${releaseKey(await releaseIdFor(0))}/.publisher.json`;
  await put(root, broken, '{');
  const refused = await publishAsRelease(root, 1);
  t.match(refused, {
    action: 'fail_conflict',
    error: { code: 'state_conflict', hint: /to publish a new release/ },
  });
  t.match(await publishAsRelease(root, 1, { force: true }), { action: 'force_replace', error: null });
  t.equal((await snapshot(root)).get(broken), '{', 'nothing was deleted');
});

t.test('rejects servers without atomic replacement before it writes anything', async (t) => {
  const root = memoryStorage({ flavour: 'objects', conditionalWrites: 'create' });
  t.match(await publishAsRelease(root, 0), { error: { code: 'storage_permanent', message: /If-Match/ } });
  t.same([...(await snapshot(root)).keys()], []);
});

t.test('URLs have current only if configured', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const more = { publicBaseUrl: 'https://maps.example.org/' };
  const plain = await publishAsRelease(root, 0, { more, dryRun: true });
  t.equal(plain.outputs[0]?.url, 'https://maps.example.org/site/assets/app.js');
});

t.test('selects the newest bundle again if another run was faster', async (t) => {
  const { publishBundle } = await import('../../../../src/core/publish/publish-bundle.ts');
  const { destinationOf } = await import('../../../faults/world.ts');
  const root = memoryStorage({ flavour: 'files' });
  await publishAsRelease(root, 2);
  const rule = { keep: 9, lingerMs: 0, currentInUrl: true, channels: [] };
  const destination = { ...destinationOf('replacement'), releases: rule };
  let asked = 0;
  const selectAgain = async (): Promise<ReturnType<typeof bundleFor>> => {
    asked += 1;
    return bundleFor(3);
  };
  const publication = {
    bundle: bundleFor(1),
    owner,
    destination,
    destinationPath: site,
    selectAgain,
  };
  t.match(await publishBundle(context, root, publication, { dryRun: false, force: false }), { error: null });
  t.equal(asked, 1);
  t.same(await asRead(root), sorted(filesOf(3)));
});
