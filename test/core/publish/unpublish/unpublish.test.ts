import t from 'tap';
import { findOrphans } from '../../../../src/core/publish/orphans.ts';
import type {
  UnpublishReport,
  UnpublishRequest,
} from '../../../../src/core/publish/unpublish/unpublication.ts';
import { unpublish } from '../../../../src/core/publish/unpublish/unpublish.ts';
import { publishedState } from '../../../../src/core/releases/describe.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import {
  bundleFor,
  filesOf,
  lookAtReleases,
  publishAsRelease,
  publishInPlace,
  releaseIdFor,
  site,
  siteOf,
} from '../../../faults/release-world.ts';
import { contextWith, owner, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** A bundle path whose layout was changed has files of both, until one of them is unpublished. */

const context = contextWith(testClock());

async function down(root: Storage, more: Partial<UnpublishRequest> = {}): Promise<UnpublishReport> {
  return unpublish(context, root, {
    ...{ owner, destinationPath: site, maxRemoved: null, dryRun: false, concurrency: 1, ...more },
  });
}

async function withBoth(flavour: 'files' | 'objects'): Promise<Storage> {
  const root = memoryStorage({ flavour });
  await publishInPlace(root, 0);
  await publishAsRelease(root, 1);
  return root;
}

const namesOf = (n: number): string[] => Object.keys(filesOf(n)).sort();
const inPlace = async (root: Storage): Promise<string[]> =>
  [...(await snapshot(root)).keys()].filter(
    (name) => !/^site\/(releases|current|\.publisher\.releases)/.test(name),
  );

for (const flavour of ['files', 'objects'] as const) {
  t.test(`${flavour}: requires a layout if there are both`, async (t) => {
    const root = await withBoth(flavour);
    const before = await snapshot(root);
    for (const dryRun of [true, false])
      await t.rejects(down(root, { dryRun }), {
        code: 'usage',
        message: '"site" is published in place and as releases; nothing was removed',
        hint: 'choose the layout to remove with `--layout in_place` or `--layout releases`',
      });
    t.same(await snapshot(root), before);
  });

  t.test(`${flavour}: removes the files in place and keeps the releases`, async (t) => {
    const root = await withBoth(flavour);
    const ids = [await releaseIdFor(0), await releaseIdFor(1)].sort();
    const planned = await down(root, { layout: 'in_place', dryRun: true });
    const done = await down(root, { layout: 'in_place' });
    t.same([done.outputs, done.releases, done], [namesOf(0), [], planned]);
    t.same(await inPlace(root), []);
    const look = await lookAtReleases(root);
    t.same([look.current, look.stored, look.wrong], [await releaseIdFor(1), ids, []]);
    await t.rejects(down(root, { layout: 'in_place' }), {
      code: 'not_published',
      message: '"site" is not published with `layout: in_place`; nothing was removed',
      hint: 'omit --layout to remove the bundle in whichever layout it uses',
    });
    t.same((await down(root)).releases.toSorted(), ids, 'with a single layout, it need not be named');
  });

  t.test(`${flavour}: removes the releases and keeps the files in place`, async (t) => {
    const root = await withBoth(flavour);
    const before = await inPlace(root);
    const ids = [await releaseIdFor(0), await releaseIdFor(1)].sort();
    const done = await down(root, { layout: 'releases' });
    t.same([done.outputs, done.releases.toSorted()], [namesOf(1), ids]);
    t.same(await inPlace(root), before);
    t.equal((await lookAtReleases(root)).current, null);
    await t.rejects(down(root, { layout: 'releases' }), { code: 'not_published', message: /releases/ });
    t.same((await down(root)).outputs, namesOf(0));
  });

  t.test(`${flavour}: removes both layouts of an orphan, one after the other`, async (t) => {
    const root = await withBoth(flavour);
    const from = { owner, source: bundleFor(0).identity };
    for (const layout of ['in_place', 'releases'] as const) {
      const { orphans } = await findOrphans(root, from, new Set(), { counted: false });
      t.match(orphans, [{ destinationPath: site, layout }]);
      t.equal(orphans.length, 1);
      const { generation, updatedAt } = orphans[0]!;
      const isStill = (catalog: { generation: number; updatedAt: string }): boolean =>
        catalog.generation === generation && catalog.updatedAt === updatedAt;
      await down(root, { layout, orphan: { runId: null, isStill } });
    }
    t.same((await findOrphans(root, from, new Set(), { counted: false })).orphans, []);
  });

  t.test(`${flavour}: shows the configured layout`, async (t) => {
    const storage = siteOf(await withBoth(flavour));
    t.equal((await publishedState(storage, 'in_place')).release, null);
    t.equal((await publishedState(storage, 'releases')).release, await releaseIdFor(1));
    await unpublish(context, storage, {
      ...{ owner, destinationPath: '.', layout: 'releases', maxRemoved: null, dryRun: false, concurrency: 1 },
    });
    const { release, state } = await publishedState(storage, 'releases');
    t.same([release, state.kind], [null, 'valid'], 'or the existing one');
  });
}
