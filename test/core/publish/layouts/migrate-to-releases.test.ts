import t from 'tap';
import type { SourceBundle } from '../../../../src/core/bundle/source-bundle.ts';
import { readState } from '../../../../src/core/catalog/catalog-store.ts';
import { defaultLeaseTimes } from '../../../../src/core/catalog/lease/lease.ts';
import { lockText } from '../../../../src/core/catalog/lease/lock-file.ts';
import { markDead as die, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import type { LeaseTimes } from '../../../../src/core/context.ts';
import type { Clock } from '../../../../src/core/lib/clock.ts';
import { type Finding, WaybillError } from '../../../../src/core/lib/errors.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { Decided, PublishRequest } from '../../../../src/core/publish/publish-request.ts';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import { lastGoodRelease } from '../../../../src/core/releases/ledger.ts';
import { type ReleaseId, releaseKey } from '../../../../src/core/releases/release.ts';
import { readReleases } from '../../../../src/core/releases/releases-store.ts';
import { releaseStorage } from '../../../../src/core/releases/stored-releases.ts';
import { rollBack } from '../../../../src/core/releases/switch.ts';
import type { Owner } from '../../../../src/core/storage/identity.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import {
  bundleFor,
  filesOf,
  litterBelow,
  lookAtReleases,
  releaseIdFor,
  site,
  siteOf,
} from '../../../faults/release-world.ts';
import { type FaultLog, withFaults } from '../../../faults/with-faults.ts';
import {
  contextWith,
  destinationOf,
  otherOwner,
  owner,
  put,
  snapshot,
  testClock,
} from '../../../faults/world.ts';
import { instant } from '../../../support/instant.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** A bundle path published in place, for which the configuration now requires releases. */

const flavours = ['files', 'objects'] as const;
const rule = { keep: 9, lingerMs: 0, currentInUrl: false, channels: [] };

interface Asked {
  bundle?: SourceBundle;
  as?: Owner;
  destination?: Partial<DestinationConfig>;
  request?: Partial<PublishRequest>;
  leaseTimes?: LeaseTimes;
  clock?: Clock;
}

async function inPlace(root: Storage, n: number, asked: Asked = {}): Promise<ActionResult> {
  const { bundle = bundleFor(n), as = owner, destination, request } = asked;
  return publishBundle(
    contextWith(testClock()),
    root,
    {
      bundle,
      owner: as,
      destination: { ...destinationOf('replacement'), ...destination },
      destinationPath: site,
    },
    { dryRun: false, force: false, ...request },
  );
}

interface LoggedResult extends ActionResult {
  warnings: Finding[];
}

async function release(root: Storage, n: number, asked: Asked = {}): Promise<LoggedResult> {
  const { bundle = bundleFor(n), as = owner, request, clock = testClock(), leaseTimes } = asked;
  const warnings: Finding[] = [];
  const destination = { ...destinationOf('replacement'), releases: rule, ...asked.destination };
  const result = await publishBundle(
    { ...contextWith(clock), leaseTimes },
    root,
    {
      ...{ bundle, owner: as, destination, destinationPath: site },
      warn: (one) => warnings.push(one),
    },
    { dryRun: false, force: false, ...request },
  );
  return { ...result, warnings };
}

async function filesIn(root: Storage, id: ReleaseId): Promise<Record<string, string>> {
  const files = await snapshot(releaseStorage(siteOf(root), id));
  return Object.fromEntries([...files].filter(([name]) => !name.includes('.publisher')));
}

/** The files in place, without those of releases. */
async function inPlaceNow(root: Storage): Promise<Record<string, string>> {
  const isOfReleases = /^site\/(releases\/|current|\.publisher\.releases)/;
  return Object.fromEntries([...(await snapshot(root))].filter(([name]) => !isOfReleases.test(name)));
}

function without(files: Readonly<Record<string, string>>, gone: string): Record<string, string> {
  return Object.fromEntries(Object.entries(files).filter(([name]) => name !== gone));
}

const additive = { workflow: 'additive' } as const;
const changed = (would: 'has changed' | 'would change'): object[] => [
  {
    ...{ severity: 'warning', code: 'layout_changed' },
    message: `target=site: the layout ${would}: have it served from "site/current", then remove the files that were published in place with waybill unpublish --layout in_place site`,
    ...{ file: null, pointer: null, line: null, column: null },
  },
];

for (const flavour of flavours) {
  t.test(`${flavour}: the files in place become a release, and stay in place`, async (t) => {
    const root = memoryStorage({ flavour });
    await put(root, 'site/mine.txt', 'unmanaged');
    await put(root, 'sibling.txt', 'a sibling');
    await inPlace(root, 0, { request: { force: true } });
    await put(root, 'site/mine.txt', 'unmanaged');
    const before = await snapshot(root);
    const planned = await release(root, 1, { request: { dryRun: true } });
    t.same(await snapshot(root), before, 'a dry run changes nothing');
    t.same(planned.warnings, changed('would change'));
    const done = await release(root, 1);
    const [first, next] = [await releaseIdFor(0), await releaseIdFor(1)];
    t.same(
      [done.action, done.error, done.release, done.warnings],
      ['replace_catalog', null, next, changed('has changed')],
    );
    for (const key of ['action', 'reason', 'changes', 'outputs', 'release'] as const)
      t.same(done[key], planned[key], `${key}, as in the dry run`);
    t.same(
      [done.outputsWritten, done.outputsLinked, done.outputsRemoved],
      [3, 1, 1],
      'unchanged files come from there',
    );
    const look = await lookAtReleases(root);
    t.same([look.current, look.stored, look.wrong], [next, [first, next].sort(), []]);
    t.equal(lastGoodRelease(look), first);
    t.same(await filesIn(root, first), filesOf(0));
    t.same(await filesIn(root, next), filesOf(1));
    t.same(await inPlaceNow(root), Object.fromEntries(before), 'the files in place are unchanged');
    t.same(await litterBelow(root), []);

    const later = await release(root, 2);
    t.same([later.action, later.warnings], ['replace_catalog', []], 'it is reported once');
    await rollBack(contextWith(testClock()), siteOf(root), first, { dryRun: false });
    t.equal((await lookAtReleases(root)).current, first);
  });

  t.test(`${flavour}: the same bundle changes only the layout`, async (t) => {
    const root = memoryStorage({ flavour });
    await inPlace(root, 0);
    const id = await releaseIdFor(0);
    const planned = await release(root, 0, { request: { dryRun: true } });
    const done = await release(root, 0);
    const reason = {
      code: 'layout_changed',
      message: 'the layout changed from `layout: in_place` to `layout: releases`',
    };
    for (const { action, reason: why, release, error } of [planned, done])
      t.same([action, why, release, error], ['replace_catalog', reason, id, null]);
    t.same([done.outputsWritten, done.outputsKept], [0, 4]);
    t.same([planned.warnings, done.warnings], [changed('would change'), changed('has changed')]);
    t.same((await lookAtReleases(root)).stored, [id]);
    const again = await release(root, 0);
    t.same([again.action, again.reason?.code === 'layout_changed', again.warnings], ['skip_same', false, []]);
  });

  t.test(`${flavour}: an additive publication carries over existing outputs`, async (t) => {
    const root = memoryStorage({ flavour });
    await inPlace(root, 0, { destination: additive });
    const done = await release(root, 1, { destination: additive });
    t.same([done.action, done.error], ['upsert_additive', null]);
    t.same(await filesIn(root, done.release as ReleaseId), { ...filesOf(0), ...filesOf(1) });
  });

  t.test(`${flavour}: does not adopt files that differ from their records`, async (t) => {
    const root = memoryStorage({ flavour });
    await inPlace(root, 0, { destination: additive });
    await root.remove(listedKey('site/only-0.txt'));
    await put(root, 'site/index.html', 'edited by hand');
    const done = await release(root, 1, { destination: additive });
    t.same(done.error, null);
    const kept = without(filesOf(0), 'only-0.txt');
    t.same(await filesIn(root, done.release as ReleaseId), { ...kept, ...filesOf(1) });
    const { stored } = await lookAtReleases(root);
    const adopted = stored.find((id) => id !== done.release) as ReleaseId;
    t.same(await filesIn(root, adopted), without(kept, 'index.html'));
    t.equal((await inPlaceNow(root))['site/index.html'], 'edited by hand');
  });

  t.test(`${flavour}: a refusal leaves everything unchanged`, async (t) => {
    const root = memoryStorage({ flavour });
    await inPlace(root, 5);
    await inPlace(root, 5, { as: otherOwner, bundle: bundleFor(5), destination: additive });
    const mine = memoryStorage({ flavour });
    await inPlace(mine, 5);
    const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
    const foreign = memoryStorage({ flavour });
    await inPlace(foreign, 5, { as: otherOwner });
    const broken = memoryStorage({ flavour });
    await put(broken, 'site/.publisher.json', '{');
    const taken = memoryStorage({ flavour });
    await inPlace(taken, 5, {
      bundle: { ...bundleFor(5), files: [{ ...bundleFor(5).files[0]!, path: 'current' as never }] },
    });
    const stale = { destination: { stale: 'refuse' } } as const;
    for (const [what, storage, asked, code] of [
      ['an older bundle', mine, stale, 'stale_bundle'],
      ['more than may be removed', mine, { destination: { limits } }, 'too_many_removals'],
      ['another owner', foreign, {}, 'not_owned'],
      ['another owner, by force', foreign, { request: { force: true } }, 'not_owned'],
      ['a broken catalog', broken, {}, 'state_conflict'],
      ...(flavour === 'files' ? [['an output in the way', taken, {}, 'state_conflict'] as const] : []),
    ] as [string, Storage, Asked, string][]) {
      const before = await snapshot(storage);
      for (const dryRun of [true, false]) {
        const n = code === 'too_many_removals' ? 6 : 1;
        const done = await release(storage, n, { ...asked, request: { ...asked.request, dryRun } });
        t.same([done.error?.code, done.warnings], [code, []], what);
      }
      t.same(await snapshot(storage), before, what);
    }
  });

  t.test(`${flavour}: settles an interrupted publication first`, async (t) => {
    const root = memoryStorage({ flavour });
    await inPlace(root, 0);
    const log: FaultLog = { operations: [], fired: false, mutations: 0 };
    const clean = memoryStorage({ flavour });
    await inPlace(clean, 0);
    await inPlace(withFaults(clean, null, log), 1);
    // Everything except the commit is in place.
    const at = log.operations.findLastIndex((name) => /^(write|rename .*) \S*\.publisher\.json$/.test(name));
    await inPlace(
      withFaults(root, { kind: 'crash', at: at + 1, code: 'storage_transient' }, { ...log, operations: [] }),
      1,
    );
    const { state } = await readState(siteOf(root));
    t.ok(state.kind === 'valid' && state.catalog.pending !== null, 'there is an intent');
    t.equal((await release(root, 1, { request: { dryRun: true } })).error, null);
    const done = await release(root, 1);
    const look = await lookAtReleases(root);
    t.same([done.error, done.release, look.wrong], [null, look.current, []]);
    const isInPlace = (key: string): boolean => key.startsWith('site/.publisher.tmp/');
    const leftovers = await litterBelow(root);
    t.same(
      leftovers.filter((key) => !isInPlace(key)),
      [],
      'copies of the attempt in place belong to that attempt',
    );
    t.same(await filesIn(root, look.current as ReleaseId), filesOf(1));
  });

  t.test(`${flavour}: starts over after a publication in place`, async (t) => {
    const inner = memoryStorage({ flavour });
    await inPlace(inner, 0);
    let isFirst = true;
    const root: Storage = {
      ...inner,
      async write(key, body, options) {
        const written = await inner.write(key, body, options);
        // The adopted release is being created.
        if (isFirst && key.startsWith('site/releases/')) {
          isFirst = false;
          await inPlace(inner, 1);
        }
        return written;
      },
    };
    const decisions: Decided[] = [];
    const done = await release(root, 2, { request: { onDecided: (one) => void decisions.push(one) } });
    t.same([done.error, done.release, done.warnings], [null, await releaseIdFor(2), changed('has changed')]);
    const look = await lookAtReleases(inner);
    t.equal(lastGoodRelease(look), await releaseIdFor(1), 'and adopts the last state that readers saw');
    t.same(
      decisions.map(({ stored: { state } }) => state.kind === 'valid' && state.catalog.generation),
      [1, 2],
      'the decision refers to the in-place publication',
    );
  });
}

t.test('selects the newest bundle again if it was overtaken in place', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await inPlace(root, 3);
  const done = await publishBundle(
    contextWith(testClock()),
    root,
    {
      ...{ bundle: bundleFor(1), owner, destinationPath: site },
      destination: { ...destinationOf('replacement'), releases: rule, stale: 'refuse' },
      selectAgain: async () => bundleFor(4),
    },
    { dryRun: false, force: false },
  );
  t.same([done.error, done.release], [null, await releaseIdFor(4)]);
});

t.test('adopts nothing if no release can be created', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await inPlace(root, 0);
  const before = await snapshot(root);
  const blocked = { ...root, replaceLink: undefined };
  for (const dryRun of [true, false])
    t.equal((await release(blocked, 1, { request: { dryRun } })).error?.code, 'storage_permanent');
  t.same(await snapshot(root), before);
  await put(root, 'site/releases', 'a file');
  for (const dryRun of [true, false]) t.ok((await release(root, 1, { request: { dryRun } })).error);
});

t.test('assumes that files without a recorded bundle have the current one', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await inPlace(root, 0);
  const state = listedKey('site/.publisher.json');
  const catalog = JSON.parse((await snapshot(root)).get(state) ?? '') as { bundles: unknown[] };
  await put(root, state, JSON.stringify({ ...catalog, bundles: [] }));
  const bundle = { ...bundleFor(0), created: instant('2026-11-19T00:00:00Z') };
  const done = await release(root, 0, { bundle });
  t.same([done.error, (await lookAtReleases(root)).current], [null, done.release]);
  t.match(done.release, /^20261119T000000/);
});

t.test('creates a release from the files in place by links', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await inPlace(root, 0);
  const duplicates: string[] = [];
  const watched: Storage = {
    ...root,
    async duplicate(from, to) {
      duplicates.push(from);
      return root.duplicate!(from, to);
    },
  };
  await release(watched, 0);
  t.same(
    duplicates.sort(),
    Object.keys(filesOf(0))
      .map((name) => `site/${name}`)
      .sort(),
  );
  t.ok((await snapshot(root)).has(`site/${releaseKey(await releaseIdFor(0))}/index.html`));
});

/** Calls `work` once, after the first change that makes it due. */
function once(inner: Storage, isDue: () => Promise<boolean>, work: () => Promise<unknown>): Storage {
  let isOver = false;
  const afterwards = async <T>(result: T): Promise<T> => {
    if (isOver || !(await isDue())) return result;
    isOver = true;
    await work();
    return result;
  };
  return delegate(inner, {
    write: async (key, body, options) => afterwards(await inner.write(key, body, options)),
    rename: async (moves) => {
      await inner.rename!(moves);
      await afterwards(null);
    },
    replaceLink: async (key, target) => {
      await inner.replaceLink!(key, target);
      await afterwards(null);
    },
    remove: async (key, options) => {
      await inner.remove(key, options);
      await afterwards(null);
    },
  });
}

/** Before any pointer refers to it. */
function onceWhole(inner: Storage, id: ReleaseId, work: () => Promise<unknown>): Storage {
  const isWhole = async (): Promise<boolean> => {
    const { state } = await readState(releaseStorage(siteOf(inner), id));
    const lock = listedKey(`site/${releaseKey(id)}/.publisher.lock`);
    const isHeld = (await inner.stat(lock)) !== undefined;
    return state.kind === 'valid' && state.catalog.pending === null && !isHeld;
  };
  return once(inner, isWhole, work);
}

async function interrupted(flavour: 'files' | 'objects'): Promise<Storage> {
  const root = memoryStorage({ flavour });
  await inPlace(root, 0);
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  const clean = memoryStorage({ flavour });
  await inPlace(clean, 0);
  await inPlace(withFaults(clean, null, log), 1);
  const at = log.operations.findLastIndex((name) => /^(write|rename .*) \S*\.publisher\.json$/.test(name));
  const fault = { kind: 'crash', at: at + 1, code: 'storage_transient' } as const;
  await inPlace(withFaults(root, fault, { operations: [], fired: false, mutations: 0 }), 1);
  return root;
}

for (const flavour of flavours) {
  t.test(`${flavour}: starts again after a publication in place at the last moment`, async (t) => {
    const inner = memoryStorage({ flavour });
    await inPlace(inner, 0);
    const root = onceWhole(inner, await releaseIdFor(0), async () => inPlace(inner, 1));
    const done = await release(root, 2);
    t.same([done.error, done.release, done.warnings], [null, await releaseIdFor(2), changed('has changed')]);
    t.equal(lastGoodRelease(await lookAtReleases(inner)), await releaseIdFor(1));
  });

  t.test(`${flavour}: another process that switched first reports the change of layout`, async (t) => {
    const inner = memoryStorage({ flavour });
    await inPlace(inner, 0);
    const root = onceWhole(inner, await releaseIdFor(0), async () => release(inner, 7));
    const done = await release(root, 2);
    t.same([done.error, done.release, done.warnings], [null, await releaseIdFor(2), []]);
    t.equal(lastGoodRelease(await lookAtReleases(inner)), await releaseIdFor(7));
  });

  t.test(`${flavour}: refuses a path taken over by another owner, and reports no change`, async (t) => {
    const inner = memoryStorage({ flavour });
    await inPlace(inner, 0);
    const isLed = async (): Promise<boolean> => (await readReleases(siteOf(inner))).current !== null;
    const root = once(inner, isLed, async () =>
      release(inner, 5, { as: otherOwner, request: { force: true } }),
    );
    const done = await release(root, 2);
    t.same([done.action, done.reason?.code], ['fail_unmanaged', 'release_of_other_owner']);
    t.same(done.warnings, []);
  });

  t.test(`${flavour}: reports an obstacle to the release, and switches nothing`, async (t) => {
    const inner = memoryStorage({ flavour });
    await inPlace(inner, 0);
    const before = await inPlaceNow(inner);
    const root: Storage = {
      ...inner,
      duplicate: async () => null,
      async write(key, body, options) {
        if (/index\.html$|\.publisher\.tmp\//.test(key))
          throw new WaybillError('storage_permanent', 'no room');
        return inner.write(key, body, options);
      },
    };
    const { error, warnings } = await release(root, 1);
    t.same([error?.code, error?.message, warnings], ['storage_permanent', 'no room', []]);
    t.equal((await lookAtReleases(inner)).current, null);
    t.same(await inPlaceNow(inner), before);
  });

  t.test(`${flavour}: allowed removals also apply to the release that follows`, async (t) => {
    const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
    const root = memoryStorage({ flavour });
    await inPlace(root, 0);
    const done = await release(root, 1, { destination: { limits }, request: { allowRemovals: true } });
    t.same([done.error, done.outputsRemoved], [null, 1]);
  });

  t.test(`${flavour}: a dry run checks for obstacles to both releases`, async (t) => {
    const inner = memoryStorage({ flavour });
    await inPlace(inner, 0);
    const changes: [string[], number | null][] = [];
    const root: Storage = {
      ...inner,
      async obstacleTo(change) {
        changes.push([[...change.writes].sort(), change.bytes]);
        return inner.obstacleTo(change);
      },
    };
    await release(root, 1, { request: { dryRun: true } });
    const [adopted, next] = await Promise.all([0, 1].map(releaseIdFor));
    const added = Object.entries(filesOf(1)).filter(
      ([name]) => !(name in filesOf(0)) || /index|app/.test(name),
    );
    const keys = added.map(([name]) => `site/${releaseKey(next!)}/${name}`).sort();
    t.same(changes, [
      [[], 0],
      [keys, added.reduce((sum, [, text]) => sum + text.length, 0)],
    ]);
    changes.length = 0;
    const blocked: Storage = {
      ...root,
      async obstacleTo(change) {
        const isIn = change.writes.some((key) => key.includes(adopted!));
        return isIn || change.writes.length === 0
          ? new WaybillError('storage_permanent', 'in the way')
          : null;
      },
    };
    const refused = await release(blocked, 1, { request: { dryRun: true } });
    t.equal(refused.error?.message, 'in the way');
  });

  t.test(`${flavour}: without a pointer, no release is held back`, async (t) => {
    const root = memoryStorage({ flavour });
    await release(root, 0);
    await release(root, 1);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    await inPlace(root, 0);
    const pointer = listedKey(flavour === 'files' ? 'site/current' : 'site/current.json');
    if (flavour === 'files') await root.remove(pointer);
    else {
      const text = (await snapshot(root)).get(pointer)!;
      await put(root, pointer, text.replace(/"current": "[^"]*"/, '"current": null'));
    }
    for (const dryRun of [true, false]) {
      const done = await release(root, 1, { request: { dryRun } });
      t.same([done.action, done.release, done.error], ['replace_catalog', await releaseIdFor(1), null]);
    }
  });
}

t.test('takes the lease only to settle an interrupted attempt', async (t) => {
  const taken = async (root: Storage, dryRun: boolean): Promise<number> => {
    let count = 0;
    let changes = 0;
    const watched: Storage = {
      ...root,
      async write(key, body, options) {
        changes += 1;
        if (key === 'site/.publisher.lock') count += 1;
        return root.write(key, body, options);
      },
    };
    t.equal((await release(watched, 1, { request: { dryRun } })).error, null);
    if (dryRun) t.equal(changes, 0, 'a dry run writes nothing, not even a lock');
    return count;
  };
  const whole = async (): Promise<Storage> => {
    const root = memoryStorage({ flavour: 'files' });
    await inPlace(root, 0);
    return root;
  };
  // One for each of the two switches.
  t.equal(await taken(await whole(), false), 2);
  t.equal(await taken(await interrupted('files'), false), 3);
  t.equal(await taken(await whole(), true), 0);
  t.equal(await taken(await interrupted('files'), true), 0);
});

t.test('a dry run has the result of the run under the lease', async (t) => {
  for (const flavour of flavours) {
    const planned = await release(await interrupted(flavour), 1, { request: { dryRun: true } });
    const done = await release(await interrupted(flavour), 1);
    for (const key of ['action', 'reason', 'changes', 'release'] as const)
      t.same(done[key], planned[key], key);
    const next = await release(await interrupted(flavour), 2, { request: { dryRun: true } });
    t.same(next.changes, (await release(await interrupted(flavour), 2)).changes);
  }
});

t.test(
  'uses the configured timeout at each step of the adoption when waiting for a stale lease',
  async (t) => {
    const leaseTimes: LeaseTimes = { ...defaultLeaseTimes, staleAfterMs: 100_000 };
    const steps: [string, string, () => Promise<Storage>][] = [
      [
        'filling',
        `site/${releaseKey(await releaseIdFor(0))}`,
        async () => {
          const root = memoryStorage({ flavour: 'files' });
          await inPlace(root, 0);
          return root;
        },
      ],
      [
        'switching',
        'site',
        async () => {
          const root = memoryStorage({ flavour: 'files' });
          await inPlace(root, 0);
          return root;
        },
      ],
      ['settling', 'site', async () => interrupted('files')],
    ];
    for (const [step, place, make] of steps) {
      const root = await make();
      const holder = newHolder();
      const clock = testClock();
      await put(root, `${place}/.publisher.lock`, lockText(holder, 0));
      const { error } = await release(root, 1, { clock, leaseTimes });
      die(holder);
      t.equal(error, null, step);
      const waited = clock.monotonic();
      t.ok(waited >= 100_000 && waited < 119_000, `${step} waited ${waited} ms`);
    }
  },
);

t.test('a foreign file with the name of the pointer is not adopted', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await inPlace(root, 0);
  await put(root, 'site/current', 'mine');
  t.same((await release(root, 1)).error?.code, 'unmanaged_content');
  const taken = memoryStorage({ flavour: 'files' });
  const [file] = bundleFor(5).files;
  const files = ['current/page.html', 'index.html'].map((path) => ({ ...file!, path: path as never }));
  await inPlace(taken, 5, { bundle: { ...bundleFor(5), files } });
  t.same((await release(taken, 1)).error?.code, 'state_conflict');
});
