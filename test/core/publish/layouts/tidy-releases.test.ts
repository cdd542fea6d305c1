import t from 'tap';
import type { ChannelConfig, DestinationConfig } from '../../../../src/core/config/config.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import { tidyDestination } from '../../../../src/core/publish/unpublish/retire-releases.ts';
import { releaseKey } from '../../../../src/core/releases/release.ts';
import { readReleases } from '../../../../src/core/releases/releases-store.ts';
import { releaseIds } from '../../../../src/core/releases/stored-releases.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { bundleFor, releaseIdFor } from '../../../faults/release-world.ts';
import { contextWith, destinationOf, owner, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Removals in a whole destination without an active publication. */

const hour = 3_600_000;
const rule = { keep: 1, lingerMs: 0, currentInUrl: false, channels: [] };
const preview = { name: 'preview', ttlMs: hour };
const destination = { ...destinationOf('replacement'), releases: rule };

async function publish(root: Storage, at: string, n: number, channel: ChannelConfig | null): Promise<void> {
  const keeping = { ...rule, keep: 9, channels: channel === null ? [] : [channel] };
  const publication = {
    bundle: bundleFor(n),
    owner,
    destination: { ...destination, releases: keeping },
    destinationPath: at,
  };
  const { error } = await publishBundle(contextWith(testClock()), root, publication, {
    ...{ dryRun: false, force: false, channel: channel?.name },
  });
  if (error !== null) throw new Error(error.message);
}

/** Two bundle paths with a channel each, and one with more releases than the limit. */
async function world(flavour: 'files' | 'objects'): Promise<Storage> {
  const root = memoryStorage({ flavour });
  for (const at of ['one', 'deep/two']) {
    await publish(root, at, 0, null);
    await publish(root, at, 1, preview);
  }
  for (const n of [0, 1, 2]) await publish(root, 'three', n, null);
  return root;
}

interface Asked {
  later?: number;
  dryRun?: boolean;
  path?: string | null;
  more?: Partial<DestinationConfig>;
}

async function tidy(
  root: Storage,
  { later = 0, dryRun = false, path = null, more }: Asked,
): Promise<unknown> {
  const clock = testClock();
  await clock.sleep(later);
  return tidyDestination(contextWith(clock), root, { ...destination, ...more }, { dryRun, path });
}

async function pathsWithPreview(root: Storage): Promise<string[]> {
  const found: string[] = [];
  for (const at of ['one', 'deep/two'])
    if ((await readReleases(subdirectory(root, listedKey(at)))).channels.has('preview')) found.push(at);
  return found;
}

for (const flavour of ['files', 'objects'] as const) {
  t.test(`${flavour}: removes due releases at every bundle path, and nothing else`, async (t) => {
    const root = await world(flavour);
    const [first, second] = [await releaseIdFor(0), await releaseIdFor(1)];
    const three = { destinationPath: 'three', channels: [], releases: [first] };
    const before = await snapshot(root);
    t.same(await tidy(root, { dryRun: true }), [three]);
    t.same(await snapshot(root), before);
    t.same(await tidy(root, {}), [three]);
    t.same(await tidy(root, {}), []);
    t.same(await pathsWithPreview(root), ['one', 'deep/two']);
    const gone = { channels: ['preview'], releases: [second] };
    const both = ['deep/two', 'one'].map((destinationPath) => ({ destinationPath, ...gone }));
    const due = await snapshot(root);
    t.same(await tidy(root, { later: hour, dryRun: true }), both);
    t.same(await snapshot(root), due);
    t.same(await tidy(root, { later: hour, path: 'one' }), both.slice(1), 'one of them');
    t.same(await pathsWithPreview(root), ['deep/two']);
    t.same(await tidy(root, { later: hour }), both.slice(0, 1));
    t.same(await pathsWithPreview(root), []);
    for (const at of ['one', 'deep/two'])
      t.same(await releaseIds(subdirectory(root, listedKey(at))), [first], 'the current release stays');
    t.same(
      [...(await snapshot(root)).keys()].filter((key) => /lock|tmp|preview$/.test(key)),
      [],
      'no files are left',
    );
  });

  t.test(`${flavour}: with mapping fixed, checks only the root, without a listing`, async (t) => {
    const inner = memoryStorage({ flavour });
    await publish(inner, '.', 0, null);
    await publish(inner, '.', 1, preview);
    let listings = 0;
    const root: Storage = {
      ...inner,
      list(directory, options) {
        listings += 1;
        return inner.list(directory, options);
      },
    };
    const more = { mapping: 'fixed' } as const;
    t.same(await tidy(root, { more }), []);
    t.equal(listings, 0);
    const releases = [await releaseIdFor(1)];
    t.same(await tidy(root, { later: hour, more }), [
      { destinationPath: '.', channels: ['preview'], releases },
    ]);
  });

  t.test(`${flavour}: does not report due releases that do not exist`, async (t) => {
    const root = await world(flavour);
    await subdirectory(root, listedKey('three')).removeTree(releaseKey(await releaseIdFor(0)));
    t.same(await tidy(root, {}), []);
  });

  t.test(`${flavour}: does nothing at a destination without releases`, async (t) => {
    const root = await world(flavour);
    const before = await snapshot(root);
    t.same(await tidy(root, { later: hour, more: { releases: null } }), []);
    t.same(await snapshot(root), before);
  });
}
