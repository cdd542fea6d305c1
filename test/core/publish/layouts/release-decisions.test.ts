import t from 'tap';
import type { SourceBundle } from '../../../../src/core/bundle/source-bundle.ts';
import { defaultLeaseTimes } from '../../../../src/core/catalog/lease/lease.ts';
import { lockText } from '../../../../src/core/catalog/lease/lock-file.ts';
import { stagingRoot } from '../../../../src/core/catalog/lease/staged-copies.ts';
import { markDead as die, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import type { CoreContext, LeaseTimes } from '../../../../src/core/context.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { Decided, PublishRequest } from '../../../../src/core/publish/publish-request.ts';
import type { ActionResult, Progress } from '../../../../src/core/publish/results/result.ts';
import { currentLinkKey, releaseKey } from '../../../../src/core/releases/release.ts';
import { readReleases } from '../../../../src/core/releases/releases-store.ts';
import { releaseStorage } from '../../../../src/core/releases/stored-releases.ts';
import { rollBack } from '../../../../src/core/releases/switch.ts';
import type { Owner } from '../../../../src/core/storage/identity.ts';
import { joinKey, type Key, listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import {
  bundleFor,
  filesOf,
  litterBelow,
  lookAtReleases,
  publishAsRelease,
  releaseIdFor,
  site,
  siteOf,
} from '../../../faults/release-world.ts';
import {
  bundleOf,
  bundlePath,
  contextWith,
  destinationOf,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  testClock,
} from '../../../faults/world.ts';
import { instant } from '../../../support/instant.ts';
import { type MemoryDisk, memoryStorage } from '../../../support/memory-storage.ts';

/** The decisions, reports, rejections and cleanup of a publication into releases. */

const flavours = ['files', 'objects'] as const;

interface Asked {
  bundle?: SourceBundle;
  as?: Owner;
  at?: string;
  keep?: number;
  destination?: Partial<DestinationConfig>;
  request?: Partial<PublishRequest>;
  context?: Partial<CoreContext>;
}

async function publish(
  root: Storage,
  n: number,
  { bundle = bundleFor(n), as = owner, at = site, keep = 9, ...more }: Asked = {},
): Promise<ActionResult> {
  const rule = { keep, lingerMs: 0, currentInUrl: false, channels: [] };
  const destination = { ...destinationOf('replacement'), releases: rule, ...more.destination };
  return publishBundle(
    { ...contextWith(testClock()), ...more.context },
    root,
    { bundle, owner: as, destination, destinationPath: at },
    { dryRun: false, force: false, ...more.request },
  );
}

const additive = { destination: { workflow: 'additive' } } as const;
const pathsOf = (outputs: readonly { path: string }[]): string[] => outputs.map(({ path }) => path).sort();
const namesOf = (n: number): string[] => Object.keys(filesOf(n)).sort();

async function published(flavour: 'files' | 'objects', ...releases: number[]): Promise<Storage> {
  const root = memoryStorage({ flavour });
  for (const n of releases) await publishAsRelease(root, n);
  return root;
}

for (const flavour of flavours) {
  t.test(`${flavour}: reports the decision before anything is written`, async (t) => {
    const disk: MemoryDisk = new Map();
    const root = memoryStorage({ flavour, disk });
    await publishAsRelease(root, 0);
    const before = new Map(disk);
    for (const dryRun of [true, false]) {
      const decisions: Decided[] = [];
      const onDecided = (decided: Decided): void => {
        t.same([...disk.keys()], [...before.keys()]);
        decisions.push(decided);
      };
      t.equal((await publish(root, 1, { request: { dryRun, onDecided } })).error, null);
      const [decided] = decisions;
      t.same([decisions.length, decided?.plan.action], [1, 'replace_catalog']);
      t.same(pathsOf(decided?.planned ?? []), namesOf(1));
      t.equal(decided?.stored.state.kind, 'valid');
      if (dryRun) t.same(disk, before);
    }
  });

  t.test(`${flavour}: refuses a bundle path within a release, in both layouts`, async (t) => {
    const root = await published(flavour, 0);
    const before = await snapshot(root);
    const release = `${site}/${releaseKey(await releaseIdFor(0))}`;
    for (const at of [release, `${release}/below`, release.toLowerCase()])
      for (const releases of [undefined, null])
        for (const request of [{}, { force: true }, { dryRun: true }]) {
          const destination = releases === null ? { releases } : {};
          const { action, error } = await publish(root, 1, { at, destination, request });
          t.match({ action, error }, { action: 'error', error: { code: 'nested_managed_path' } }, at);
        }
    t.same(await snapshot(root), before, 'nothing was written');
    t.match(await publish(root, 1, { at: `${site}/releases/latest` }), { error: null });
  });

  t.test(`${flavour}: changes nothing if the decision callback rejects`, async (t) => {
    const root = await published(flavour, 0);
    const before = await snapshot(root);
    const onDecided = (): never => {
      throw new Error('not this one');
    };
    const { action, error } = await publish(root, 1, { request: { onDecided } });
    t.same([action, error?.message], ['error', 'not this one']);
    t.same(await snapshot(root), before);
  });

  t.test(`${flavour}: a publication that is held back changes nothing`, async (t) => {
    const root = await published(flavour, 0, 1);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    const decisions: Decided[] = [];
    const result = await publish(root, 1, {
      request: { onDecided: (decided) => void decisions.push(decided) },
    });
    const id = await releaseIdFor(1);
    const reason = {
      code: 'rolled_back',
      message: `release ${id} was rolled back, and runs do not make it current again`,
    };
    t.same([result.action, result.reason, result.release, result.changes], ['skip_same', reason, id, []]);
    const { writes, kept, removes, unkept, untouched, changes, clears } = decisions[0]!.plan;
    t.same([writes, kept, removes, unkept, untouched, changes, clears], [[], [], [], [], [], [], false]);
    t.same(
      [result.outputsKept, result.outputsWritten, result.outputsRemoved, result.bytesKept],
      [0, 0, 0, 0],
      'no cleanup was made',
    );
  });

  t.test(`${flavour}: holds back a rolled back release, even after it was removed`, async (t) => {
    const root = await published(flavour, 0, 1);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    const id = await releaseIdFor(1);
    await siteOf(root).removeTree(releaseKey(id));
    const result = await publish(root, 1);
    t.same([result.action, result.reason?.code, result.release], ['skip_same', 'rolled_back', id]);
    const first = await releaseIdFor(0);
    const { current, stored } = await lookAtReleases(root);
    t.same([current, stored], [first, [first]], 'and is not written again');
  });

  t.test(`${flavour}: exceeds the removal limit only if removals are allowed`, async (t) => {
    const root = await published(flavour, 0);
    const destination = { limits: { maxRemoved: { count: 0 } } } as Partial<DestinationConfig>;
    t.equal((await publish(root, 1, { destination })).error?.code, 'too_many_removals');
    const allowed = await publish(root, 1, { destination, request: { allowRemovals: true } });
    t.same([allowed.error, allowed.outputsRemoved], [null, 1]);
  });

  t.test(`${flavour}: names the release of another owner`, async (t) => {
    const root = memoryStorage({ flavour });
    await publish(root, 0, { as: otherOwner });
    const before = await snapshot(root);
    const message = 'the current release was published by other/web';
    for (const dryRun of [true, false]) {
      const { action, reason, error, changes, release } = await publish(root, 1, { request: { dryRun } });
      t.same([action, changes, release], ['fail_unmanaged', [], null]);
      t.same(reason, { code: 'release_of_other_owner', message });
      t.equal(
        error?.hint,
        'publish to another path, or run once with --force to publish a release of this pipeline;' +
          ' the existing release is kept for a rollback',
      );
    }
    t.same(await snapshot(root), before);
    const forced = await publish(root, 1, { request: { force: true } });
    t.same([forced.action, forced.reason?.message, forced.error], ['force_replace', message, null]);
    t.same([forced.outputsWritten, forced.outputsLinked, forced.outputsRemoved], [4, 0, 0]);
    t.same([...new Set(forced.changes.map(({ fate }) => fate))], ['add']);
  });

  t.test(`${flavour}: names files that cannot be converted, with the fix`, async (t) => {
    for (const [at, where] of [
      [site as string, `${site}/`],
      ['.', ''],
    ] as const) {
      const root = memoryStorage({ flavour });
      const { release } = await publish(root, 0, { at, ...additive });
      await root.remove(listedKey(`${where}releases/${release}/only-0.txt`));
      const before = await snapshot(root);
      for (const dryRun of [true, false]) {
        const { action, error } = await publish(root, 1, { at, ...additive, request: { dryRun } });
        t.same(
          [action, error?.code, error?.message, error?.hint],
          [
            'error',
            'state_conflict',
            `"only-0.txt" of the current release ${release} is missing or damaged, and an additive publication carries it over`,
            `run waybill verify --repair to restore it, or check ${where}releases/${release}`,
          ],
        );
      }
      t.same(await snapshot(root), before);
    }
  });

  t.test(`${flavour}: carries over every record unchanged`, async (t) => {
    const root = memoryStorage({ flavour });
    await publish(root, 0, additive);
    const recordsOf = async (): Promise<readonly Record<string, unknown>[]> => {
      const current = (await readReleases(siteOf(root))).current!;
      const text = (await snapshot(releaseStorage(siteOf(root), current))).get('.publisher.json')!;
      return (JSON.parse(text) as { outputs: Record<string, unknown>[] }).outputs;
    };
    const was = (await recordsOf()).find(({ path }) => path === 'only-0.txt');
    const { outputsWritten, outputsLinked, error } = await publish(root, 1, additive);
    t.same([outputsWritten, outputsLinked, error], [3, 1, null]);
    const now = await recordsOf();
    t.same(
      now.find(({ path }) => path === 'only-0.txt'),
      was,
    );
    t.same(
      now.map(({ path }) => path),
      [...new Set([...namesOf(0), ...namesOf(1)])].sort(),
      'sorted by path',
    );
  });

  t.test(`${flavour}: takes no files that an interrupted repair may have changed`, async (t) => {
    const root = memoryStorage({ flavour });
    await publish(root, 0, additive);
    const catalog = joinKey(site, `${releaseKey(await releaseIdFor(0))}/.publisher.json`);
    const state = JSON.parse((await snapshot(root)).get(catalog)!) as Record<string, unknown> & {
      outputs: { path: string }[];
    };
    const touched = state.outputs.filter(({ path }) => /style|only/.test(path));
    const pending = {
      ...{ attempt_id: '0'.repeat(32), owner: { pipeline_id: 'maps', destination_id: 'web' } },
      ...{
        action: 'replace_catalog',
        started_at: '2026-11-20T00:00:00.000Z',
        outputs: touched,
        removes: [],
        holder: null,
        renewals: 0,
      },
    };
    await put(root, catalog, JSON.stringify({ ...state, pending }));
    const duplicated: string[] = [];
    const watched: Storage = {
      ...root,
      async duplicate(from, to) {
        duplicated.push(from);
        return root.duplicate!(from, to);
      },
    };
    const { outputsLinked, error } = await publish(watched, 1, additive);
    t.same([outputsLinked, error, duplicated], [0, null, []]);
    const { current } = await readReleases(siteOf(root));
    const files = await snapshot(releaseStorage(siteOf(root), current!));
    t.same([files.get('only-0.txt'), files.get('assets/style.css')], ['0', 'the same in each']);
  });
}

t.test('additive: holds a bundle back as long as its release is rolled back', async (t) => {
  const rolledBack = async (): Promise<Storage> => {
    const root = memoryStorage({ flavour: 'files' });
    for (const n of [0, 1, 2]) await publish(root, n, additive);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    return root;
  };
  const ids = (await lookAtReleases(await rolledBack())).rolledBack;
  t.equal(ids.length, 2);
  // After release 0, the same bundles give releases with other ids, because they carry over less.
  for (const n of [1, 2]) {
    const { reason, release } = await publish(await rolledBack(), n, additive);
    t.equal(reason?.code, 'rolled_back');
    t.ok(ids.some((id) => id === release));
  }
  const changed = (n: number, text: string): SourceBundle => ({
    ...bundleOf({ ...filesOf(n), 'index.html': text }, site),
    created: bundleFor(n).created,
  });
  const others: [string, Asked][] = [
    ['of other content', { bundle: changed(2, 'mended') }],
    ['made at another time', { bundle: { ...bundleFor(2), created: instant('2026-11-12T10:00:01Z') } }],
  ];
  for (const [name, more] of others) {
    const { action, error } = await publish(await rolledBack(), 2, { ...additive, ...more });
    t.same([action, error], ['upsert_additive', null], name);
  }
  const root = await rolledBack();
  for (const id of ids) await root.remove(joinKey(site, `${releaseKey(id)}/.publisher.json`));
  const { reason } = await publish(root, 2, additive);
  t.not(reason?.code, 'rolled_back', 'without a catalog the release is unknown');
});

t.test('reports the files and bytes of the planned release once', async (t) => {
  const root = await published('files', 0);
  const plannedBy = async (more: Asked): Promise<Progress[]> => {
    const reported: Progress[] = [];
    const onProgress = (progress: Progress): void => void reported.push(progress);
    await publish(root, 1, { ...more, request: { ...more.request, onProgress } });
    return reported.filter(({ type }) => type === 'planned');
  };
  const planned = { type: 'planned', destinationId: 'web', destinationPath: site };
  const bytes = Object.values(filesOf(1)).join('').length;
  const first = { ...planned, action: 'replace_catalog', outputs: 4, bytes };
  t.same(await plannedBy({ request: { dryRun: true } }), [first]);
  const all = Object.values({ ...filesOf(0), ...filesOf(1) }).join('').length;
  t.same(await plannedBy({ ...additive, request: { dryRun: true } }), [
    { ...planned, action: 'upsert_additive', outputs: 5, bytes: all },
  ]);
  t.same(await plannedBy({}), [first]);
  t.same(await plannedBy({}), [{ ...planned, action: 'skip_same', outputs: 0, bytes: 0 }]);
});

t.test('reports the plan once if another publication was first', async (t) => {
  const root = await published('files', 0);
  let isFirst = true;
  const slow: Storage = {
    ...root,
    async rename(moves) {
      await root.rename!(moves);
      if (!isFirst || !moves.some(({ to }) => to.endsWith('index.html'))) return;
      isFirst = false;
      await publishAsRelease(root, 2);
    },
  };
  const reported: Progress[] = [];
  const onProgress = (progress: Progress): void => void reported.push(progress);
  const { error, release } = await publish(slow, 3, { request: { onProgress } });
  t.same([error, release], [null, await releaseIdFor(3)]);
  t.equal(reported.filter(({ type }) => type === 'planned').length, 1);
});

t.test('if other publications are always faster, ends as busy', async (t) => {
  const root = await published('files', 0);
  const bundle = {
    ...bundleOf({ 'index.html': 'ours', 'ours.txt': 'x' }, site),
    created: bundleFor(9).created,
  };
  const { release } = await publish(root, 9, { bundle, request: { dryRun: true } });
  let others = 0;
  const crowded: Storage = {
    ...root,
    async *read(key: Key) {
      if (key.endsWith(`${release}/.publisher.json`)) await publishAsRelease(root, (others += 1));
      yield* root.read(key);
    },
  };
  const errors: unknown[] = [];
  const error = (fields: object, text: string): unknown => errors.push([Object.keys(fields), text]);
  const context = { log: { ...silentLog, error } } as unknown as Partial<CoreContext>;
  const result = await publish(crowded, 9, { bundle, context });
  t.same([result.action, result.error?.code], ['error', 'destination_busy']);
  t.ok(others >= 10, 'each round was overtaken');
  t.same(errors, [[['err', 'destination', 'bundle'], 'publication failed']]);
  t.equal((await lookAtReleases(root)).current, await releaseIdFor(others));
});

t.test('a dry run rejects a release that the run could not create', async (t) => {
  const plain = memoryStorage({ flavour: 'files' });
  const noLinks = { ...plain, replaceLink: undefined };
  for (const dryRun of [true, false]) {
    const { action, error } = await publish(noLinks, 0, { request: { dryRun } });
    t.same([action, error?.code], ['error', 'storage_permanent']);
    t.match(error?.message, /posix-rename@openssh\.com/);
  }
  t.same([...(await snapshot(plain)).keys()], []);

  const blocked = memoryStorage({ flavour: 'files' });
  await put(blocked, `${site}/releases`, 'a file');
  for (const dryRun of [true, false]) {
    const { action, error } = await publish(blocked, 0, { request: { dryRun } });
    t.same([action, error?.message.includes('releases')], ['error', true]);
  }
  t.same([...(await snapshot(blocked)).entries()], [[`${site}/releases`, 'a file']]);

  // Only writes can show whether an object store supports conditions, so a dry run does not check.
  const objects = memoryStorage({ flavour: 'objects', conditionalWrites: 'create' });
  t.equal((await publish(objects, 0, { request: { dryRun: true } })).action, 'publish_new');
  t.equal((await publish(objects, 0)).error?.code, 'storage_permanent');
});

t.test('a dry run checks for the free space of a release, unless files are staged there', async (t) => {
  const root = await published('files', 0);
  const rooms: (number | null | undefined)[] = [];
  const watched: Storage = {
    ...root,
    async obstacleTo(change) {
      rooms.push(change.bytes);
      return root.obstacleTo(change);
    },
  };
  const unlike = Object.entries(filesOf(1)).filter(([name]) => !name.endsWith('style.css'));
  const bytes = unlike.reduce((sum, [, text]) => sum + text.length, 0);
  await publish(watched, 1, { request: { dryRun: true } });
  const id = await releaseIdFor(1);
  await put(root, `${site}/${releaseKey(id)}/${stagingRoot}/x/y`, 'staged');
  await publish(watched, 1, { request: { dryRun: true } });
  t.same(rooms, [bytes, null]);
});

t.test('without changes, sweeps the remains of kills, except in a dry run', async (t) => {
  const root = await published('files', 0);
  const dead = newHolder();
  die(dead);
  const inside = `${site}/${releaseKey(await releaseIdFor(0))}/.publisher.lock`;
  const locks = [inside, `${site}/.publisher.lock`].sort();
  for (const lock of locks) await put(root, lock, lockText(dead, 0));
  t.equal((await publish(root, 0, { request: { dryRun: true } })).action, 'skip_same');
  t.same((await litterBelow(root)).sort(), locks);
  t.equal((await publish(root, 0)).action, 'skip_same');
  t.same(await litterBelow(root), []);
});

t.test('without changes, removes old releases when they are due', async (t) => {
  const root = await published('files', 0, 1, 2, 3);
  const dead = newHolder();
  die(dead);
  await put(root, `${site}/.publisher.lock`, lockText(dead, 0));
  t.equal((await publish(root, 3, { keep: 1, request: { dryRun: true } })).action, 'skip_same');
  t.equal((await lookAtReleases(root)).stored.length, 4);
  t.equal((await publish(root, 3, { keep: 1 })).action, 'skip_same');
  t.same((await lookAtReleases(root)).stored, [await releaseIdFor(2), await releaseIdFor(3)]);
  t.same(await litterBelow(root), []);
});

t.test('failing to remove an old release does not fail the publication', async (t) => {
  const root = await published('files', 0, 1);
  const warned: [object, string][] = [];
  const warn = (fields: object, text: string): unknown => warned.push([fields, text]);
  const first = await releaseIdFor(0);
  const stuck: Storage = {
    ...root,
    async remove(key) {
      if (key.includes(first)) throw new Error('no');
      return root.remove(key);
    },
  };
  const context = { log: { ...silentLog, warn } } as unknown as Partial<CoreContext>;
  const { action, error, release } = await publish(stuck, 2, { keep: 0, context });
  t.same([action, error, release], ['replace_catalog', null, await releaseIdFor(2)]);
  const [fields, text] = warned.at(-1)!;
  t.same(Object.keys(fields), ['storage', 'err']);
  t.equal(text, 'removing old releases failed; the next run removes them');
  t.equal((await publish(root, 2, { keep: 0 })).action, 'skip_same');
  t.notOk((await lookAtReleases(root)).stored.includes(first));
});

t.test('each step waits for a stale lease as long as requested', async (t) => {
  const leaseTimes: LeaseTimes = { ...defaultLeaseTimes, staleAfterMs: 100_000 };
  const [removed, written] = await Promise.all([0, 3].map(releaseIdFor));
  const steps: [string, string, number][] = [
    ['filling', `${site}/${releaseKey(written!)}`, 3],
    ['switching', site, 3],
    ['retiring', `${site}/${releaseKey(removed!)}`, 3],
    ['retiring, with nothing to publish', `${site}/${releaseKey(removed!)}`, 2],
  ];
  for (const [step, place, n] of steps) {
    const root = await published('files', 0, 1, 2);
    const holder = newHolder();
    await put(root, `${place}/.publisher.lock`, lockText(holder, 0));
    const clock = testClock();
    const { error } = await publish(root, n, { keep: 0, context: { clock, leaseTimes } });
    die(holder);
    t.equal(error, null, step);
    const waited = clock.monotonic();
    t.ok(waited >= 100_000 && waited < 119_000, `${step} waited ${waited} ms`);
    t.notOk((await lookAtReleases(root)).stored.includes(removed!));
  }
});

const move = 'check it, because readers may follow it; then move it away and run again';

t.test('names a pointer that waybill did not create, at any bundle path', async (t) => {
  for (const [at, where, place] of [
    [site as string, `"${site}"`, `${site}/`],
    ['.', 'the destination root', ''],
  ] as const) {
    const linked = memoryStorage({ flavour: 'files' });
    await linked.replaceLink!(listedKey(`${place}${currentLinkKey}`), listedKey('elsewhere'));
    const file = memoryStorage({ flavour: 'files' });
    await put(file, `${place}${currentLinkKey}`, 'mine');
    for (const [root, what] of [
      [linked, 'leads to "elsewhere", which is not a release'],
      [file, 'is not a symbolic link'],
    ] as const) {
      const { error, outputs } = await publish(root, 0, { at });
      t.same(
        [error?.code, error?.message, error?.hint],
        ['unmanaged_content', `${where}: "current" ${what}: waybill did not create it`, move],
      );
      t.same(outputs, [], 'nothing was planned');
    }
  }
  const objects = memoryStorage({ flavour: 'objects' });
  await put(objects, `${site}/current`, 'mine');
  t.same((await publish(objects, 0)).error, null, 'not a pointer of an object store');
});

t.test('names files in place that cannot be adopted', async (t) => {
  const broken = memoryStorage({ flavour: 'files' });
  await put(broken, `${bundlePath}/.publisher.json`, '{');
  const inTheWay = memoryStorage({ flavour: 'files' });
  await publishTo(inTheWay, { files: { 'current/index.html': 'in place' } });
  const away = 'publish once in place without that output, or publish the releases at another path';
  const withRepair =
    'publish there once with `layout: in_place` to repair the catalog or see what is wrong with it';
  for (const [root, what, hint] of [
    [broken, ', and its catalog cannot be read', withRepair],
    [inTheWay, ' and has an output at "current", where the pointer of the releases would be', away],
  ] as const) {
    const before = await snapshot(root);
    for (const [storage, at, where] of [
      [root, bundlePath, `"${bundlePath}"`],
      [subdirectory(root, listedKey(bundlePath)), '.', 'the destination root'],
    ] as const) {
      const { error } = await publish(storage, 0, { at });
      t.same(
        [error?.code, error?.message, error?.hint],
        ['state_conflict', `${where} is published with \`layout: in_place\`${what}`, hint],
      );
    }
    t.same(await snapshot(root), before);
  }
});
