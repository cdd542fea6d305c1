import t from 'tap';
import { lockText } from '../../../../src/core/catalog/lease/lock-file.ts';
import { markDead as die, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import type { Occurrence } from '../../../../src/core/notify/event.ts';
import type {
  DecidedOrphan,
  UnpublishReport,
  UnpublishRequest,
} from '../../../../src/core/publish/unpublish/unpublication.ts';
import { unpublish } from '../../../../src/core/publish/unpublish/unpublish.ts';
import { unpublishReleases } from '../../../../src/core/publish/unpublish/unpublish-releases.ts';
import { currentLinkKey, releaseKey } from '../../../../src/core/releases/release.ts';
import { readReleases } from '../../../../src/core/releases/releases-store.ts';
import { rollBack } from '../../../../src/core/releases/switch.ts';
import { joinKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import {
  bundleFor,
  filesOf,
  publishAsRelease,
  releaseIdFor,
  site,
  siteOf,
  writeRelease,
} from '../../../faults/release-world.ts';
import { contextWith, otherOwner, owner, put, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** The decisions and reports for a bundle path of releases that is unpublished. */

const occurrences: Occurrence[] = [];
const context = {
  ...contextWith(testClock()),
  notify: (occurrence: Occurrence) => void occurrences.push(occurrence),
};
const flavours = ['files', 'objects'] as const;

async function down(root: Storage, more: Partial<UnpublishRequest> = {}): Promise<UnpublishReport> {
  return unpublish(context, root, {
    ...{ owner, destinationPath: site, maxRemoved: null, dryRun: false, concurrency: 1, ...more },
  });
}

async function published(flavour: 'files' | 'objects', ...releases: number[]): Promise<Storage> {
  const root = memoryStorage({ flavour });
  for (const n of releases) await publishAsRelease(root, n);
  return root;
}

/** The remaining files below the bundle path. An object store keeps the pointer, which marks it as empty. */
async function left(root: Storage): Promise<string[]> {
  return [...(await snapshot(root)).keys()].filter((name) => name !== `${site}/current.json`).sort();
}

async function reportOf(n: number, ...releases: number[]): Promise<UnpublishReport> {
  const files = Object.entries(filesOf(n));
  const { identity, created } = bundleFor(n);
  return {
    destinationPath: site,
    bundle: { owner, source: identity, created, digest: null } as unknown as UnpublishReport['bundle'],
    outputs: files.map(([name]) => name).sort(),
    bytes: files.reduce((sum, [, text]) => sum + text.length, 0),
    staying: [],
    releases: await Promise.all(releases.map(releaseIdFor)),
  };
}

const nothingShown = { destinationPath: site, bundle: null, outputs: [], bytes: 0, staying: [] };

for (const flavour of flavours) {
  t.test(`${flavour}: reports the current outputs and every removed release`, async (t) => {
    const root = await published(flavour, 0, 1);
    await rollBack(context, siteOf(root), null, { dryRun: false });
    const expected = await reportOf(0, 0, 1);
    for (const dryRun of [true, false]) {
      const { bundle, ...report } = await down(root, { dryRun });
      t.same({ ...report, bundle: expected.bundle }, expected);
      t.same([bundle?.source.path, bundle?.created], ['site', bundleFor(0).created]);
    }
    t.same(await left(root), []);
  });

  t.test(`${flavour}: removes releases that never were current, too`, async (t) => {
    const root = memoryStorage({ flavour });
    const id = await writeRelease(root, 0);
    for (const dryRun of [true, false])
      t.same(await down(root, { dryRun }), { ...nothingShown, releases: [id] });
    t.same(await left(root), []);
  });

  t.test(`${flavour}: a directory without a catalog is not a release, and stays`, async (t) => {
    const root = await published(flavour, 0);
    const mine = `${site}/${releaseKey(await releaseIdFor(1))}/mine.txt`;
    await put(root, mine, 'mine');
    t.same((await down(root)).releases, [await releaseIdFor(0)]);
    t.same(await left(root), flavour === 'files' ? [`${site}/.publisher.releases.json`, mine] : [mine]);
  });
}

t.test('removes a pointer to a missing release', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await root.replaceLink!(joinKey(site, currentLinkKey), releaseKey(await releaseIdFor(0)));
  t.same(await down(root), { ...nothingShown, releases: [] });
  t.same(await left(root), []);
});

t.test('removes a ledger without releases, and returns null if there is nothing', async (t) => {
  const root = await published('files', 0);
  const ledger = (await snapshot(root)).get(`${site}/.publisher.releases.json`) as string;
  await down(root);
  const request = { owner, destinationPath: site, maxRemoved: null, dryRun: false, concurrency: 1 };
  t.equal(await unpublishReleases(context, siteOf(root), request), null);
  await put(root, `${site}/.publisher.releases.json`, ledger);
  t.same(await unpublishReleases(context, siteOf(root), request), { ...nothingShown, releases: [] });
  t.same(await left(root), []);
});

t.test('does not unpublish a release that became current in the meantime', async (t) => {
  const inner = await published('files', 0);
  let isFirst = true;
  const root: Storage = {
    ...inner,
    async write(key, body, options) {
      if (isFirst && key === `${site}/.publisher.lock`) {
        isFirst = false;
        await publishAsRelease(inner, 1);
      }
      return inner.write(key, body, options);
    },
  };
  await t.rejects(down(root), { code: 'destination_busy' });
  t.equal((await readReleases(siteOf(inner))).current, await releaseIdFor(1));
  t.ok((await left(inner)).includes(`${site}/${releaseKey(await releaseIdFor(0))}/index.html`));
});

t.test('limits.max_removed counts current outputs, and not again after an interruption', async (t) => {
  const code = 'too_many_removals';
  for (const [destinationPath, where] of [
    [site, /^"site": 4 of 4 /],
    ['.', /^the destination root: 4 of 4 /],
  ] as const) {
    const root = await published('files', 0, 1);
    const from = destinationPath === '.' ? siteOf(root) : root;
    const before = await snapshot(root);
    for (const dryRun of [true, false])
      await t.rejects(down(from, { destinationPath, maxRemoved: { count: 3 }, dryRun }), {
        code,
        message: where,
      });
    t.same(await snapshot(root), before);
    const report = await down(from, { destinationPath, maxRemoved: { count: 4 } });
    t.equal(report.outputs.length, 4);
  }
  const root = await published('files', 0, 1);
  const ledger = `${site}/.publisher.releases.json`;
  const text = (await snapshot(root)).get(ledger) as string;
  await put(root, ledger, text.replace('"removing": []', `"removing": ["${await releaseIdFor(0)}"]`));
  t.equal(
    (await down(root, { maxRemoved: { count: 0 } })).outputs.length,
    4,
    'the started prune was allowed',
  );
});

t.test('removes nothing if another owner has a release, and names the owner', async (t) => {
  const root = await published('files', 0);
  await publishAsRelease(root, 1, { as: otherOwner, force: true });
  const { current: theirs } = await readReleases(siteOf(root));
  const before = await snapshot(root);
  for (const [from, destinationPath, where] of [
    [root, site, '"site"'],
    [siteOf(root), '.', 'the destination root'],
  ] as const)
    await t.rejects(down(from, { destinationPath }), {
      code: 'not_owned',
      message: `${where}: release ${theirs} was published by other/web; nothing was removed`,
      hint: /--pipeline other --destination web$/,
    });
  t.same(await snapshot(root), before);
});

t.test('removes an orphan only if it still is one and onDecided accepts', async (t) => {
  const decisions: DecidedOrphan[] = [];
  const onDecided = (decided: DecidedOrphan): void => void decisions.push(decided);
  const asked: unknown[] = [];
  const orphanThat = (is: boolean): NonNullable<UnpublishRequest['orphan']> => ({
    runId: 'r1',
    isStill: (catalog) => {
      asked.push(catalog.outputs.map(({ path }) => path));
      return is;
    },
    onDecided,
  });
  const outputs = Object.keys(filesOf(1)).sort();
  const root = await published('files', 0, 1);
  const before = await snapshot(root);
  await t.rejects(down(root, { orphan: orphanThat(false) }), {
    code: 'destination_busy',
    message: /^another publisher changed "site" /,
  });
  t.same([decisions, asked], [[], [outputs]]);
  t.same(await snapshot(root), before);

  await down(root, { orphan: orphanThat(true) });
  t.equal(decisions.length, 1);
  const [{ work, stored }] = decisions as [DecidedOrphan];
  t.same([work.removes, work.destinationPath, work.owner], [outputs, site, owner]);
  t.match(stored.state, { kind: 'valid', catalog: { outputs: outputs.map((path) => ({ path })) } });
  t.same(await left(root), []);

  const unread = memoryStorage({ flavour: 'files' });
  await writeRelease(unread, 0);
  await t.rejects(
    down(unread, { orphan: orphanThat(true) }),
    { code: 'destination_busy' },
    'none is current',
  );
  t.equal((await left(unread)).length, 5);

  const silent = await published('files', 0);
  await down(silent, { orphan: { runId: null, isStill: () => true } });
  t.same(await left(silent), []);
});

t.test('reports each removal, but not in a dry run', async (t) => {
  const root = await published('files', 0, 1);
  occurrences.length = 0;
  await down(root, { dryRun: true });
  t.same(occurrences, []);
  await down(root);
  t.match(occurrences, [
    {
      type: 'bundle.unpublished',
      data: { destination_path: site, reason: 'unpublish', counts: { outputs_removed: 4 } },
    },
  ]);
  t.equal(occurrences.length, 1);
  const unheard = await published('files', 0);
  const request = { owner, destinationPath: site, maxRemoved: null, dryRun: false, concurrency: 1 };
  t.equal((await unpublish(contextWith(testClock()), unheard, request)).releases.length, 1);
});

t.test('sweeps the lock of a dead holder in a removed release', async (t) => {
  const root = await published('files', 0);
  const dead = newHolder();
  die(dead);
  const emptied = subdirectory(siteOf(root), releaseKey(await releaseIdFor(1)));
  await put(emptied, '.publisher.lock', lockText(dead, 0));
  await down(root);
  t.same(await left(root), []);
});
