import t from 'tap';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import { removeChannel } from '../../../../src/core/releases/channels.ts';
import { lastGoodRelease } from '../../../../src/core/releases/ledger.ts';
import { type ReleaseId, releaseKey } from '../../../../src/core/releases/release.ts';
import { releaseStorage } from '../../../../src/core/releases/stored-releases.ts';
import { promote, rollBack } from '../../../../src/core/releases/switch.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import {
  bundleFor,
  filesOf,
  litterBelow,
  lookAtReleases,
  publishAsRelease,
  publishInPlace,
  releaseIdFor,
  type ReleasePublicationOptions,
  retire,
  siteOf,
  takeDown,
} from '../../../faults/release-world.ts';
import { contextWith, destinationOf, put, snapshot, testClock } from '../../../faults/world.ts';
import { instant } from '../../../support/instant.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Temporary pointers next to the current one. */

const flavours = ['files', 'objects'] as const;
const hour = 3_600_000;
const preview = { name: 'preview', ttlMs: hour };

async function toPreview(
  root: Storage,
  n: number,
  options: ReleasePublicationOptions = {},
): Promise<ActionResult> {
  return publishAsRelease(root, n, { channel: preview, ...options });
}

async function published(flavour: 'files' | 'objects', ...releases: number[]): Promise<Storage> {
  const root = memoryStorage({ flavour });
  for (const n of releases) await publishAsRelease(root, n);
  return root;
}

async function previewOf(root: Storage): Promise<ReleaseId | null> {
  return (await lookAtReleases(root)).channels.get('preview') ?? null;
}

async function filesIn(root: Storage, id: ReleaseId | null): Promise<Record<string, string> | null> {
  if (id === null) return null;
  const files = [...(await snapshot(releaseStorage(siteOf(root), id)))];
  return Object.fromEntries(files.filter(([name]) => !name.includes('.publisher')));
}

for (const flavour of flavours) {
  t.test(`${flavour}: only readers of a channel see its release`, async (t) => {
    const root = await published(flavour, 0);
    const before = await snapshot(root);
    const planned = await toPreview(root, 1, { dryRun: true });
    t.same(await snapshot(root), before, 'a dry run changes nothing');
    const done = await toPreview(root, 1);
    const [current, shown] = [await releaseIdFor(0), await releaseIdFor(1)];
    for (const { action, error, release, channel, changes } of [planned, done])
      t.same(
        [action, error, release, channel, changes],
        ['replace_catalog', null, shown, 'preview', done.changes],
      );
    t.same(
      [done.outputsWritten, done.outputsLinked],
      [3, 1],
      'unchanged files come from the current release',
    );
    const look = await lookAtReleases(root);
    t.same([look.current, look.wrong, await previewOf(root)], [current, [], shown]);
    t.same(await filesIn(root, shown), filesOf(1));
    if (flavour === 'files') t.equal((await snapshot(root)).get('site/preview'), `→ ${releaseKey(shown)}`);
    t.same(await litterBelow(root), []);

    const next = await toPreview(root, 2);
    t.same([next.outputsWritten, next.outputsLinked, next.outputsRemoved], [3, 1, 1]);
    t.same([(await lookAtReleases(root)).current, await previewOf(root)], [current, await releaseIdFor(2)]);
  });

  t.test(`${flavour}: the bundle of a channel becomes current without a transfer`, async (t) => {
    const root = await published(flavour, 0);
    await toPreview(root, 1);
    const { outputsWritten, outputsLinked, error, release, channel } = await publishAsRelease(root, 1);
    t.same(
      [outputsWritten, outputsLinked, error, release, channel],
      [0, 0, null, await releaseIdFor(1), null],
    );
    t.same([(await lookAtReleases(root)).current, await previewOf(root)], [release, release]);
    await toPreview(root, 2);
    await promote(contextWith(testClock()), siteOf(root), await releaseIdFor(2), { dryRun: false });
    t.equal((await lookAtReleases(root)).current, await releaseIdFor(2));
  });

  t.test(`${flavour}: a channel can point to the current release, and reports it`, async (t) => {
    const root = await published(flavour, 0);
    const id = await releaseIdFor(0);
    const planned = await toPreview(root, 0, { dryRun: true });
    t.equal(await previewOf(root), null);
    const done = await toPreview(root, 0);
    const reason = {
      code: 'channel_set',
      message: `channel "preview" leads to release ${id}, which is already current`,
    };
    for (const { action, reason: why, release, changes } of [planned, done])
      t.same([action, why, release, changes], ['replace_catalog', reason, id, []]);
    t.same([done.outputsKept, done.outputsWritten], [4, 0]);
    t.equal(await previewOf(root), id);
    const again = await toPreview(root, 0);
    t.same([again.action, again.release, again.channel], ['skip_same', id, 'preview']);
  });

  t.test(`${flavour}: a channel may exist before there is a current release`, async (t) => {
    const root = memoryStorage({ flavour });
    const { action, error } = await toPreview(root, 0);
    t.same([action, error], ['publish_new', null]);
    const look = await lookAtReleases(root);
    t.same([look.current, await previewOf(root), lastGoodRelease(look)], [null, await releaseIdFor(0), null]);
    const first = await publishAsRelease(root, 1);
    t.same([first.action, first.error], ['publish_new', null], 'the others had none');
    t.equal(await previewOf(root), await releaseIdFor(0));
  });

  t.test(`${flavour}: each publication renews the expiry, and then the channel is removed`, async (t) => {
    const root = await published(flavour, 0);
    const clock = testClock();
    const wait = async (ms: number): Promise<void> => clock.sleep(ms);
    const expiry = async (): Promise<string | undefined> =>
      (await lookAtReleases(root)).ledger.channels[0]?.expiresAt;
    await toPreview(root, 1, { clock });
    t.equal(await expiry(), new Date(clock.now().getTime() + hour).toISOString());
    await wait(hour / 2);
    t.equal((await toPreview(root, 1, { clock })).action, 'skip_same');
    t.equal(await expiry(), new Date(clock.now().getTime() + hour).toISOString());
    await wait(hour - 1);
    t.equal((await publishAsRelease(root, 0, { clock })).action, 'skip_same');
    t.equal(await previewOf(root), await releaseIdFor(1), 'not before that time');
    await wait(1);
    t.equal((await publishAsRelease(root, 0, { clock, dryRun: true })).action, 'skip_same');
    t.equal(await previewOf(root), await releaseIdFor(1), 'not by a dry run');
    t.equal((await publishAsRelease(root, 0, { clock })).action, 'skip_same');
    const look = await lookAtReleases(root);
    t.same([await previewOf(root), look.ledger.channels], [null, []]);
    t.same(look.stored, [await releaseIdFor(0)], 'with its release');
    t.notOk((await snapshot(root)).has('site/preview'));
    t.same(await litterBelow(root), []);
  });

  t.test(`${flavour}: the target of a channel is kept, and does not count towards the limit`, async (t) => {
    const root = await published(flavour, 0, 1);
    await toPreview(root, 5);
    for (const n of [2, 3]) await publishAsRelease(root, n, { keep: 1 });
    const ids = async (...ns: number[]): Promise<ReleaseId[]> => Promise.all(ns.map(releaseIdFor));
    t.same((await lookAtReleases(root)).stored, await ids(2, 3, 5));
    await toPreview(root, 6, { keep: 1 });
    t.same((await lookAtReleases(root)).stored, await ids(2, 3, 6), 'its previous target is removed');
    await retire(root, 0);
    t.same((await lookAtReleases(root)).stored, await ids(2, 3, 6));
    t.equal(lastGoodRelease(await lookAtReleases(root)), (await ids(2))[0]);
  });

  t.test(`${flavour}: keeps a former channel release for the linger time`, async (t) => {
    const root = await published(flavour, 0);
    const clock = testClock();
    await toPreview(root, 1, { clock, lingerMs: 600_000 });
    await clock.sleep(hour / 2);
    await toPreview(root, 2, { clock, lingerMs: 600_000 });
    await clock.sleep(599_999);
    await publishAsRelease(root, 0, { clock, lingerMs: 600_000 });
    t.ok((await lookAtReleases(root)).stored.includes(await releaseIdFor(1)));
    await clock.sleep(1);
    await publishAsRelease(root, 0, { clock, lingerMs: 600_000 });
    const { stored, ledger } = await lookAtReleases(root);
    t.same([stored, ledger.leftByChannels], [[await releaseIdFor(0), await releaseIdFor(2)], []]);
  });

  t.test(`${flavour}: a rolled back release can be published to a channel`, async (t) => {
    const root = await published(flavour, 0, 1);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    const { action, error, reason } = await toPreview(root, 1);
    t.same([action, error, reason?.code], ['replace_catalog', null, 'outputs_differ']);
    const look = await lookAtReleases(root);
    t.same([look.current, await previewOf(root)], [await releaseIdFor(0), await releaseIdFor(1)]);
    t.equal((await publishAsRelease(root, 1)).reason?.code, 'rolled_back', 'and stays rolled back');
  });

  t.test(`${flavour}: guards compare with the release of the channel, once there is one`, async (t) => {
    const root = await published(flavour, 5);
    const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
    const more = { stale: 'refuse', limits } as const;
    t.equal(
      (await toPreview(root, 3, { more })).error,
      null,
      'older than the current one, and without one file',
    );
    t.equal((await toPreview(root, 2, { more })).error?.code, 'stale_bundle');
    t.equal((await toPreview(root, 4, { more })).error?.code, 'too_many_removals');
    t.equal(await previewOf(root), await releaseIdFor(3));
  });

  t.test(`${flavour}: a channel is removed early on request, and with the bundle path`, async (t) => {
    const root = await published(flavour, 0);
    await toPreview(root, 1);
    const context = contextWith(testClock());
    t.equal(await removeChannel(context, siteOf(root), 'other'), false);
    t.equal(await removeChannel(context, siteOf(root), 'preview'), true);
    t.equal(await previewOf(root), null);
    t.equal(await removeChannel(context, siteOf(root), 'preview'), false);
    await toPreview(root, 2);
    t.equal(await takeDown(root), true);
    const left = [...(await snapshot(root)).keys()];
    t.same(left, flavour === 'files' ? [] : ['site/current.json']);
    t.same((await lookAtReleases(root)).ledger.channels, []);
  });

  t.test(`${flavour}: a channel is also unpublished if there is no current release`, async (t) => {
    const root = memoryStorage({ flavour });
    await toPreview(root, 0);
    t.equal(await takeDown(root), true);
    const left = [...(await snapshot(root)).keys()];
    t.same(left, flavour === 'files' ? [] : ['site/current.json']);
  });

  t.test(`${flavour}: adopts files in place first, and keeps them current`, async (t) => {
    const root = memoryStorage({ flavour });
    await publishInPlace(root, 0);
    const { error, release } = await toPreview(root, 1);
    t.same([error, release], [null, await releaseIdFor(1)]);
    const look = await lookAtReleases(root);
    t.same([look.current, await previewOf(root)], [await releaseIdFor(0), await releaseIdFor(1)]);
  });

  t.test(
    `${flavour}: the first publication to a channel has no guards, even after an adoption`,
    async (t) => {
      const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
      for (const dryRun of [true, false]) {
        const root = memoryStorage({ flavour });
        await publishInPlace(root, 5);
        const { error } = await toPreview(root, 3, { dryRun, more: { stale: 'refuse', limits } });
        t.equal(error, null);
      }
    },
  );

  t.test(`${flavour}: decides again if the channel was switched in the meantime`, async (t) => {
    const inner = await published(flavour, 0);
    await toPreview(inner, 1);
    let isFirst = true;
    const into = `site/${releaseKey(await releaseIdFor(3))}`;
    const root: Storage = {
      ...inner,
      async write(key, body, options) {
        const written = await inner.write(key, body, options);
        if (isFirst && key.startsWith(into)) {
          isFirst = false;
          await toPreview(inner, 2);
        }
        return written;
      },
    };
    const { error, outputsRemoved, changes } = await toPreview(root, 3);
    t.same([error, outputsRemoved], [null, 1]);
    t.ok(
      changes.some(({ path, fate }) => path === 'only-2.txt' && fate === 'remove'),
      'next to the one in between',
    );
    t.equal(await previewOf(inner), await releaseIdFor(3));
  });

  t.test(`${flavour}: each channel has its own expiry`, async (t) => {
    const root = await published(flavour, 0);
    const clock = testClock();
    await toPreview(root, 1, { clock });
    await toPreview(root, 2, { clock, channel: { name: 'beta', ttlMs: 2 * hour } });
    await clock.sleep(hour);
    await publishAsRelease(root, 0, { clock });
    const { channels, stored } = await lookAtReleases(root);
    t.same([...channels], [['beta', await releaseIdFor(2)]]);
    t.same(stored, [await releaseIdFor(0), await releaseIdFor(2)]);
  });
}

t.test('keeps a foreign file with the name of a pointer, and names it', async (t) => {
  for (const make of [
    async (root: Storage) => put(root, 'site/preview', 'mine'),
    async (root: Storage) => put(root, 'site/preview/index.html', 'mine'),
    async (root: Storage) => root.replaceLink!(listedKey('site/preview'), listedKey('elsewhere')),
  ]) {
    const root = await published('files', 0);
    await make(root);
    const before = await snapshot(root);
    const { error, channel } = await toPreview(root, 1);
    t.equal(channel, 'preview');
    t.same(
      [error?.code, error?.message, error?.hint],
      [
        'release_unusable',
        '"site": "preview" exists but is not the pointer of the channel with this name; the current release is unchanged',
        'check it and move it away, or rename the channel',
      ],
    );
    const after = await snapshot(root);
    for (const [name, text] of before) if (!name.includes('.publisher')) t.equal(after.get(name), text, name);
  }
});

t.test('does not remove a foreign pointer with its channel', async (t) => {
  const root = await published('files', 0);
  const clock = testClock();
  await toPreview(root, 1, { clock });
  await root.replaceLink!(listedKey('site/preview'), listedKey('elsewhere'));
  await clock.sleep(hour);
  await publishAsRelease(root, 0, { clock });
  t.equal((await snapshot(root)).get('site/preview'), '→ elsewhere');
  t.same((await lookAtReleases(root)).ledger.channels, []);
});

t.test("selects the newest bundle again if it is older than the channel's release", async (t) => {
  const root = await published('files', 0);
  await toPreview(root, 3);
  const bundle = { ...bundleFor(2), created: instant('2026-11-11T00:00:00Z') };
  const { error, release } = await toPreview(root, 2, { bundle, selectAgain: async () => bundleFor(4) });
  t.same([error, release], [null, await releaseIdFor(4)]);
});
