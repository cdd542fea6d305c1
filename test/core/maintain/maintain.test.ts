import t from 'tap';
import { requireCatalog } from '../../../src/core/catalog/catalog-store.ts';
import { lockText } from '../../../src/core/catalog/lease/lock-file.ts';
import { markDead, newHolder } from '../../../src/core/catalog/lease/this-holder.ts';
import {
  catalogReadLimits,
  displayPath,
  lastCommitTime,
  managedPaths,
  requireManagedPaths,
} from '../../../src/core/catalog/managed-paths.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { prune } from '../../../src/core/maintain/prune.ts';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import { verify } from '../../../src/core/maintain/verify.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';
import {
  contextWith,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
} from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const context = contextWith(testClock());
const policy = { enabled: true, keepLatest: 1, olderThanMs: null };

async function published(): Promise<Storage> {
  const storage = memoryStorage({ flavour: 'files' });
  await publishTo(storage, { files: { 'a.txt': 'a', 'b.txt': 'b' } });
  await publishTo(storage, { files: { 'theirs.txt': 't' }, as: otherOwner });
  return storage;
}

async function recorded(storage: Storage): Promise<string[]> {
  const state = await stateOf(storage);
  return state.kind === 'valid' ? state.catalog.outputs.map(({ path }) => path) : [];
}

t.test(
  'managed paths: every directory with a state, parents first; an error if required and there is none',
  async (t) => {
    const storage = memoryStorage({ flavour: 'files' });
    await t.rejects(requireManagedPaths(storage), { code: 'bundle_not_found' });
    for (const place of ['x/y/', 'x/', '', '.publisher.tmp/z/'])
      await put(storage, `${place}.publisher.json`, '{}');
    t.same(await managedPaths(storage), ['', 'x', 'x/y']);
    t.same((await requireManagedPaths(storage)).map(displayPath), ['.', 'x', 'x/y']);
  },
);

t.test('only a valid state has a catalog; others have a hint', async (t) => {
  const refused = { code: 'state_conflict' };
  t.throws(() => requireCatalog({ kind: 'absent' }), refused);
  t.throws(() => requireCatalog({ kind: 'legacy', version: 2, records: [] }), {
    ...refused,
    hint: /publish once/,
  });
  t.throws(() => requireCatalog({ kind: 'future', version: 5 }), { ...refused, hint: /newer waybill/ });
  t.throws(() => requireCatalog({ kind: 'invalid', reason: 'x' }), { ...refused, message: /invalid: x/ });
});

t.test('prune removes, records and notifies of its decisions, for its own owner only', async (t) => {
  const storage = await published();
  const occurrences: Occurrence[] = [];
  const notify = (occurrence: Occurrence): void => void occurrences.push(occurrence);
  const planned = await prune({ ...context, notify }, storage, {
    owner,
    policy,
    maxRemoved: null,
    dryRun: true,
  });
  t.same(
    planned.decisions.map(({ record, prune: isPruned }) => [record.path, isPruned]),
    [
      ['a.txt', false],
      ['b.txt', true],
    ],
  );
  t.same([planned.removed, occurrences], [[], []]);
  const report = await prune({ ...context, notify }, storage, {
    owner,
    policy,
    maxRemoved: null,
    dryRun: false,
  });
  t.same(report.removed, [{ destinationPath: 'bundle', path: 'b.txt' }]);
  t.same(report.errors, []);
  t.equal(occurrences.length, 1);
  t.same(await recorded(storage), ['a.txt', 'theirs.txt']);
  t.notOk((await snapshot(storage)).has('bundle/b.txt'));
});

t.test('a failed deletion stays recorded; one with a lost response does not', async (t) => {
  for (const [isApplied, left] of [
    [false, ['a.txt', 'b.txt', 'theirs.txt']],
    [true, ['a.txt', 'theirs.txt']],
  ] as const) {
    const inner = await published();
    const failing: Storage = {
      ...inner,
      async remove(key) {
        if (!key.endsWith('b.txt')) return inner.remove(key);
        if (isApplied) await inner.remove(key);
        throw new Error('no answer');
      },
    };
    const { errors } = await prune(context, failing, { owner, policy, maxRemoved: null, dryRun: false });
    t.match(errors, [{ destinationPath: 'bundle', error: { message: 'no answer' } }]);
    t.same(await recorded(inner), left);
  }
});

t.test('removes nothing if a prune exceeds the limit, and reports its decision and the flag', async (t) => {
  for (const dryRun of [true, false]) {
    const storage = await published();
    const before = await snapshot(storage);
    const maxRemoved = { percent: 40 };
    const report = await prune(context, storage, { owner, policy, maxRemoved, dryRun });
    t.match(report, {
      removed: { length: 0 },
      errors: { length: 0 },
      refused: {
        code: 'too_many_removals',
        message: /^the destination: 1 of 2 published outputs would be removed.*allows 40%, which is 0/,
        hint: /--allow-removals/,
      },
    });
    t.equal(report.decisions.filter(({ prune: isPruned }) => isPruned).length, 1);
    t.same(await snapshot(storage), before);
    const allowed = await prune(context, storage, { owner, policy, maxRemoved: { count: 1 }, dryRun });
    t.equal(allowed.refused, null);
    t.equal(allowed.removed.length, dryRun ? 0 : 1);
  }
});

const days = 86_400_000;
const byAge = { enabled: true, keepLatest: null, olderThanMs: 30 * days };
const fast = {
  ...context,
  clock: { ...context.clock, now: () => new Date(Date.parse('2026-12-30T00:00:00Z')) },
};

/** A server with its own clock, reported when it is opened or through file times. */
function withClock(inner: Storage, now: string, isReported: boolean): Storage {
  const clockOffsetMs = isReported ? Date.parse(now) - fast.clock.now().getTime() : null;
  return {
    ...inner,
    facts: { ...inner.facts, clockOffsetMs },
    async stat(key) {
      const found = await inner.stat(key);
      return found === undefined ? undefined : { ...found, modifiedAt: new Date(now) };
    },
  };
}

t.test('prune by age with a clock 40 days ahead of the storage removes nothing', async (t) => {
  for (const isReported of [true, false]) {
    const inner = await published();
    const before = await snapshot(inner);
    const options = { owner, policy: byAge, maxRemoved: null, dryRun: false };
    const behind = withClock(inner, '2026-11-20T00:00:00Z', isReported);
    const { refused, removed } = await prune(fast, behind, options);
    t.match(refused, { code: 'clock_ahead', message: /40d ahead of the clock of/ });
    t.same(removed, []);
    t.same(await snapshot(inner), before, 'the temporary file is removed');
    const dry = await prune(fast, behind, { ...options, dryRun: true });
    t.equal(
      dry.refused?.code ?? null,
      isReported ? 'clock_ahead' : null,
      'a dry run does not write to read the clock',
    );
    t.same(await snapshot(inner), before);
    const right = withClock(inner, '2026-12-29T23:58:00Z', isReported);
    t.match(await prune(fast, right, options), { refused: null, removed: { length: 2 } });
  }
});

t.test('decides by keep_latest and the limit if no clock is available', async (t) => {
  const options = { owner, maxRemoved: null, dryRun: false };
  const kept = await prune(fast, await published(), { ...options, policy: { ...byAge, keepLatest: 1 } });
  t.match(kept, { refused: null, removed: { length: 1 } });
  const bounded = await prune(fast, await published(), {
    ...options,
    policy: byAge,
    maxRemoved: { percent: 50 },
  });
  t.match(bounded, { refused: { code: 'too_many_removals' }, removed: { length: 0 } });
});

t.test('pruning is rejected unless it is enabled', async (t) => {
  const refused = prune(context, await published(), {
    owner,
    policy: { ...policy, enabled: false },
    maxRemoved: null,
    dryRun: false,
  });
  await t.rejects(refused, { code: 'prune_disabled' });
});

t.test('reconcile removes the records of missing outputs of its owner, and reports strays', async (t) => {
  const storage = await published();
  await storage.remove(listedKey('bundle/a.txt'));
  await storage.remove(listedKey('bundle/theirs.txt'));
  await put(storage, 'bundle/stray.txt', 's');
  const [dry] = await reconcile(context, storage, { owner, dryRun: true, allOwners: false });
  t.match(dry, {
    destinationPath: 'bundle',
    missing: [
      { path: 'a.txt', owner, repaired: true },
      { path: 'theirs.txt', owner: otherOwner, repaired: false },
    ],
    unmanaged: ['stray.txt'],
    error: null,
  });
  t.same(await recorded(storage), ['a.txt', 'b.txt', 'theirs.txt']);
  await reconcile(context, storage, { owner, dryRun: false, allOwners: false });
  t.same(await recorded(storage), ['b.txt', 'theirs.txt']);
  await reconcile(context, storage, { owner, dryRun: false, allOwners: true });
  t.same(await recorded(storage), ['b.txt']);
  t.ok((await snapshot(storage)).has('bundle/stray.txt'));
});

t.test('verify reads every output and names missing or different ones', async (t) => {
  const storage = await published();
  await storage.remove(listedKey('bundle/a.txt'));
  await put(storage, 'bundle/b.txt', 'B');
  await put(storage, 'bundle/theirs.txt', 'longer');
  const [report] = await verify(storage, { concurrency: 2 });
  t.match(report, { destinationPath: 'bundle', verified: 3, bytes: 7, interrupted: false, error: null });
  t.same(
    report?.differing.map(({ path, problem }) => [path, problem]),
    [
      ['a.txt', 'missing'],
      ['b.txt', 'digest'],
      ['theirs.txt', 'size'],
    ],
  );
});

t.test('verify: differing sizes and digests are shown, sorted, if the catalog is valid', async (t) => {
  const storage = memoryStorage({ flavour: 'files' });
  await publishTo(storage, { files: { a: 'a', b: 'b', c: 'c' } });
  await publishTo(subdirectory(storage, listedKey('x')), { files: { a: 'a' } });
  await put(storage, 'x/bundle/.publisher.json', 'nonsense');
  const text = (await snapshot(storage)).get('bundle/.publisher.json') ?? '';
  const parsed = JSON.parse(text) as { outputs: { path: string }[] };
  const pending = {
    ...{ attempt_id: 'x', action: 'upsert_additive', started_at: '2026-11-20T00:00:00.000Z' },
    ...{ owner: { pipeline_id: 'maps', destination_id: 'web' }, holder: null, renewals: 0 },
    ...{ outputs: parsed.outputs.filter(({ path }) => path === 'b'), removes: [] },
  };
  await put(storage, 'bundle/c', 'longer');
  await put(storage, 'bundle/a', 'A');
  await put(storage, 'bundle/b', 'B');
  const slow: Storage = {
    ...storage,
    // The first is read last.
    async *read(key) {
      if (key === 'bundle/a') await new Promise((resolve) => setTimeout(resolve, 5));
      yield* storage.read(key);
    },
  };
  const a = { path: 'a', problem: 'digest', expected: digestOf('a'), found: digestOf('A') };
  const c = { path: 'c', problem: 'size', expected: '1', found: '6' };
  const b = { path: 'b', problem: 'digest', expected: digestOf('b'), found: digestOf('B') };
  const whole = { skipped: 0, unfinishedRelease: null, error: null, destinationPath: 'bundle' };
  const invalid = {
    ...{
      destinationPath: 'x/bundle',
      verified: 0,
      skipped: 0,
      bytes: 0,
      differing: [],
      interrupted: false,
    },
    error: { code: 'state_conflict' },
  };
  const reports = await verify(slow, { concurrency: 3 });
  t.same(reports[0], { ...whole, verified: 3, bytes: 8, differing: [a, b, c], interrupted: false });
  t.match(reports[1], invalid);
  t.same(reports[1]?.differing, []);
  await put(storage, 'bundle/.publisher.json', JSON.stringify({ ...parsed, pending }));
  const [interrupted] = await verify(slow, { concurrency: 3 });
  t.same(interrupted, { ...whole, verified: 2, bytes: 7, differing: [a, c], interrupted: true });
});

t.test('reconcile: an unreadable catalog is reported, and the others are repaired', async (t) => {
  const storage = await published();
  await storage.remove(listedKey('bundle/a.txt'));
  await put(storage, 'x/.publisher.json', 'nonsense');
  const reports = await reconcile(context, storage, { owner, dryRun: false, allOwners: false });
  t.same(reports, [
    {
      destinationPath: 'bundle',
      missing: [{ path: 'a.txt', owner, repaired: true }],
      unmanaged: [],
      error: null,
    },
    { destinationPath: 'x', missing: [], unmanaged: [], error: reports[1]?.error },
  ]);
  t.match(reports[1]?.error, { code: 'state_conflict' });
  t.match(await stateOf(storage), { catalog: { generation: 3, outputs: { length: 2 } } });
});

t.test(
  'reconcile: strays are sorted, and a file that reappears before the lease keeps its record',
  async (t) => {
    const storage = await published();
    for (const name of ['z', 'a', 'm']) await put(storage, `bundle/${name}`, 's');
    await storage.remove(listedKey('bundle/a.txt'));
    const returning: Storage = {
      ...storage,
      async write(key, body, options) {
        if (key.endsWith('.publisher.lock')) await put(storage, 'bundle/a.txt', 'a');
        return storage.write(key, body, options);
      },
    };
    const [report] = await reconcile(context, returning, { owner, dryRun: false, allOwners: false });
    t.match(report, { missing: [{ path: 'a.txt', repaired: true }], unmanaged: ['a', 'm', 'z'] });
    t.same(await recorded(storage), ['a.txt', 'b.txt', 'theirs.txt']);
    t.match(await stateOf(storage), { catalog: { generation: 2 } }, 'nothing was written');
  },
);

t.test('reconcile: sweeps files of a dead publisher, but not in a dry run', async (t) => {
  const storage = await published();
  const dead = newHolder();
  markDead(dead);
  await put(storage, 'bundle/.publisher.lock', lockText(dead, 0));
  for (const dryRun of [true, false]) {
    await reconcile(context, storage, { owner, dryRun, allOwners: false });
    t.equal((await snapshot(storage)).has('bundle/.publisher.lock'), dryRun);
  }
});

t.test('finds the last publication of an owner in the catalogs, within limits', async (t) => {
  const storage = await published();
  const times = async (who: typeof owner): Promise<string[]> => {
    const state = await stateOf(storage);
    if (state.kind !== 'valid') return [];
    const { outputs } = state.catalog;
    return outputs.filter((one) => one.owner.destinationId === who.destinationId).map((one) => one.updatedAt);
  };
  for (const who of [owner, otherOwner]) {
    const newest = (await times(who)).sort().at(-1);
    t.equal((await lastCommitTime(storage, who, 'preserve_relative'))?.toISOString(), newest);
  }
  const nobody = { pipelineId: 'none', destinationId: 'none' };
  t.equal(await lastCommitTime(storage, nobody, 'preserve_relative'), null);
  t.equal(await lastCommitTime(storage, owner, 'fixed'), null, 'there is no catalog at the root');
  t.equal(await lastCommitTime(memoryStorage({ flavour: 'files' }), owner, 'preserve_relative'), null);
  for (const [name, value] of [
    ['entries', 2],
    ['catalogs', 0],
    ['bytes', 10],
  ] as const) {
    const limits = { ...catalogReadLimits, [name]: value };
    t.equal(await lastCommitTime(storage, owner, 'preserve_relative', limits), null, `${name} are limited`);
  }
  const broken: Storage = {
    ...storage,
    list: () => {
      throw new Error('away');
    },
  };
  await t.rejects(lastCommitTime(broken, owner, 'preserve_relative'), { message: 'away' });
  await put(storage, 'bundle/.publisher.json', 'no catalog');
  t.equal(await lastCommitTime(storage, owner, 'preserve_relative'), null);
});
