import t from 'tap';
import type { Catalog, Pending } from '../../../../src/core/catalog/catalog.ts';
import { readState } from '../../../../src/core/catalog/catalog-store.ts';
import {
  createIntent,
  defaultLeaseTimes,
  isContention,
  type Lease,
} from '../../../../src/core/catalog/lease/lease.ts';
import { acquireStateLease } from '../../../../src/core/catalog/lease/state-lease.ts';
import { isKnownDead, markDead, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import { serialiseCatalog } from '../../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../../src/core/lib/log.ts';
import type { ConditionalWrites, Storage, WriteOptions } from '../../../../src/core/storage/storage.ts';
import { put, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';
import { beatingClock } from './beating-clock.ts';

const objects = (conditionalWrites: ConditionalWrites = 'full'): Storage =>
  memoryStorage({ flavour: 'objects', conditionalWrites });
const owner = { pipelineId: 'p', destinationId: 'd' };
const updatedAt = '2026-11-20T00:00:00Z';
const elsewhere = { host: 'another', pid: 7, bootId: 'b', process: null, thread: null, instanceId: 'theirs' };

function acquire(
  storage: Storage,
  attemptId = 'mine',
  clock = testClock(),
  log: Log = silentLog,
): Promise<Lease> {
  return acquireStateLease(storage, { clock, log, attemptId, times: defaultLeaseTimes });
}

function intent(lease: Pick<Lease, 'attemptId' | 'holder'>): Catalog {
  const announced = { owner, action: 'publish_new' as const, startedAt: updatedAt, outputs: [], removes: [] };
  return { generation: 0, updatedAt, bundles: [], outputs: [], pending: createIntent(lease, announced) };
}

async function pendingIn(storage: Storage): Promise<Pending | null> {
  const { state } = await readState(storage);
  return state.kind === 'valid' ? state.catalog.pending : null;
}

const committed: Catalog = { generation: 1, updatedAt, bundles: [], outputs: [], pending: null };

for (const honored of ['full', 'create', 'none'] as const)
  t.test(`conditions ${honored}: takes, fences, commits and releases a lease`, async (t) => {
    const storage = objects(honored);
    const lease = await acquire(storage);
    t.equal((await readState(storage)).raw, null, 'acquiring it writes nothing');
    await lease.writeState(intent(lease));
    await lease.fence();
    await lease.writeState(committed);
    await lease.release();
    t.match((await readState(storage)).state, { kind: 'valid', catalog: committed });
  });

for (const honored of ['full', 'create', 'none'] as const)
  t.test(`conditions ${honored}: only the first of two contenders takes the lease`, async (t) => {
    const storage = objects(honored);
    const [first, second] = [await acquire(storage, 'first'), await acquire(storage, 'second')];
    await first.writeState(intent(first));
    const failure = await second.writeState(intent(second)).then(
      () => null,
      (error: unknown) => error,
    );
    t.ok(isContention(failure), String(failure));
    t.equal((await pendingIn(storage))?.attemptId, 'first');
    await second.release();
    await first.release();
  });

for (const honored of ['full', 'create', 'none'] as const)
  t.test(
    `conditions ${honored}: a holder that was overtaken fails at its fence and commits nothing`,
    async (t) => {
      const storage = objects(honored);
      const lease = await acquire(storage);
      await lease.writeState(intent(lease));
      const theirs = serialiseCatalog(intent({ attemptId: 'theirs', holder: elsewhere })).toString();
      await put(storage, '.publisher.json', theirs);
      await t.rejects(lease.writeState(committed), {
        code: honored === 'full' ? 'storage_conflict' : 'lease_lost',
      });
      await t.rejects(lease.fence(), { code: 'lease_lost' });
      t.ok(lease.signal.aborted);
      await lease.release();
      t.equal((await pendingIn(storage))?.holder?.instanceId, 'theirs');
    },
  );

t.test('without conditions, taking the lease reads back which write won', async (t) => {
  const inner = objects('none');
  const clock = testClock();
  const theirs = serialiseCatalog(intent({ attemptId: 'theirs', holder: elsewhere })).toString();
  const lease = await acquire(inner, 'mine', {
    ...clock,
    async sleep(ms, signal) {
      if (ms === 2_000) await put(inner, '.publisher.json', theirs);
      await clock.sleep(ms, signal);
    },
  });
  const failure = lease.writeState(intent(lease));
  await t.rejects(failure, { code: 'storage_conflict' });
  await lease.release();
});

t.test('an attempt that ends without a commit removes its holder from the intent', async (t) => {
  const storage = objects();
  const lease = await acquire(storage);
  await lease.writeState(intent(lease));
  await lease.release();
  t.match(await pendingIn(storage), { attemptId: 'mine', holder: null });
  const clock = testClock();
  await (await acquire(storage, 'next', clock)).release();
  t.equal(clock.monotonic(), 0, 'no contender waits for it');
});

t.test('does not wait for a dead holder, and waits for others until they are stale', async (t) => {
  for (const [holder, waits] of [
    [newHolder(), false],
    [elsewhere, true],
  ] as const) {
    if (!waits) markDead(holder);
    const storage = objects();
    await put(storage, '.publisher.json', serialiseCatalog(intent({ attemptId: 'old', holder })).toString());
    const clock = testClock();
    await (await acquire(storage, 'mine', clock)).release();
    t.equal(clock.monotonic() >= defaultLeaseTimes.staleAfterMs, waits);
  }
});

t.test("a renewal increments the intent's counter, and a later commit succeeds", async (t) => {
  const storage = objects();
  const clock = beatingClock();
  const lease = await acquire(storage, 'mine', clock);
  await lease.writeState(intent(lease));
  await clock.beat();
  t.equal((await pendingIn(storage))?.renewals, 1);
  await lease.writeState(committed);
  await clock.beat();
  t.equal(await pendingIn(storage), null, 'a renewal after the commit does not restore the intent');
  await lease.release();
});

t.test('restores the state to its original bytes or to none', async (t) => {
  const storage = objects();
  const first = await acquire(storage);
  await first.writeState(intent(first));
  await first.restoreState();
  await first.release();
  t.equal((await readState(storage)).raw, null);
  await put(storage, '.publisher.json', serialiseCatalog(committed).toString());
  const second = await acquire(storage);
  await second.writeState(intent(second));
  await second.restoreState();
  await second.release();
  t.equal((await readState(storage)).raw?.digest, digestOf(serialiseCatalog(committed)));
  await put(storage, '.publisher.json', JSON.stringify(JSON.parse(serialiseCatalog(committed).toString())));
  const foreign = (await readState(storage)).raw?.digest;
  const third = await acquire(storage);
  await third.writeState(intent(third));
  await third.restoreState();
  await third.release();
  t.equal((await readState(storage)).raw?.digest, foreign, 'also with another layout');
});

/** Records the options of each write, and can lose its response. */
function noting(inner: Storage, losesAnswer: () => boolean = () => false) {
  const writes: WriteOptions[] = [];
  const removed: string[] = [];
  const conditions: object[] = [];
  const storage: Storage = {
    ...inner,
    async write(key, body, options) {
      writes.push(options);
      const written = await inner.write(key, body, options);
      if (losesAnswer()) throw new WaybillError('storage_transient', 'no answer');
      return written;
    },
    async remove(key, options = {}) {
      removed.push(key);
      conditions.push(options);
      await inner.remove(key, options);
      if (losesAnswer()) throw new WaybillError('storage_transient', 'no answer');
    },
  };
  return { storage, writes, removed, conditions };
}

t.test('each write has the strictest condition and headers against caching', async (t) => {
  const headers = { contentType: 'application/json', cacheControl: 'no-cache' };
  for (const [honored, creation, isGuarded] of [
    ['full', 'create', true],
    ['create', 'create', false],
    ['none', 'replace', false],
  ] as const) {
    const { storage, writes } = noting(objects(honored));
    const lease = await acquire(storage);
    await lease.writeState(intent(lease));
    const version = (await storage.stat('.publisher.json' as never))?.version;
    await lease.writeState(committed);
    t.same(
      writes,
      [
        { mode: creation, headers },
        { mode: 'replace', ...(isGuarded && { ifVersion: version }), headers },
      ],
      honored,
    );
    await lease.release();
  }
});

t.test('without versions, checks the owner of the state before each write', async (t) => {
  const inner = objects('create');
  const facts = { ...inner.facts, conditionalWrites: async () => 'full' as const };
  const { storage, writes } = noting({
    ...inner,
    facts,
    stat: async (key) => {
      const found = await inner.stat(key);
      return found && { ...found, version: null };
    },
  });
  await put(inner, '.publisher.json', serialiseCatalog(committed).toString());
  const lease = await acquire(storage);
  await lease.writeState(intent(lease));
  t.notOk(writes.some(({ ifVersion }) => ifVersion !== undefined));
  const theirs = serialiseCatalog(intent({ attemptId: 'theirs', holder: elsewhere })).toString();
  await put(inner, '.publisher.json', theirs);
  await t.rejects(lease.writeState(committed), { code: 'lease_lost' });
  await lease.release();
});

t.test('a long plan or a commit needs no renewals to keep the lease', async (t) => {
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const { storage, writes } = noting(objects());
  const clock = beatingClock();
  const lease = await acquire(storage, 'mine', clock, log);
  for (let beat = 0; beat < 5; beat += 1) await clock.beat();
  lease.check();
  t.equal(writes.length, 0);
  await lease.writeState(intent(lease));
  await lease.writeState(committed);
  for (let beat = 0; beat < 5; beat += 1) await clock.beat();
  lease.check();
  t.equal(writes.length, 2);
  await lease.release();
  t.same(warnings, []);
});

for (const honored of ['full', 'create', 'none'] as const)
  t.test(`conditions ${honored}: commits after a lost response to the intent`, async (t) => {
    let isLost = true;
    const { storage, writes } = noting(objects(honored), () => isLost);
    const lease = await acquire(storage);
    await lease.writeState(intent(lease));
    const version = (await storage.stat('.publisher.json' as never))?.version;
    isLost = false;
    await lease.writeState(committed);
    t.equal(writes.at(-1)?.ifVersion, honored === 'full' ? version : undefined);
    await lease.release();
    t.match((await readState(storage)).state, { kind: 'valid', catalog: committed });
  });

t.test('an attempt whose commit was refused keeps the state of the next holder', async (t) => {
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const storage = objects();
  const lease = await acquire(storage, 'mine', testClock(), log);
  await lease.writeState(intent(lease));
  const theirs = serialiseCatalog(intent({ attemptId: 'theirs', holder: elsewhere })).toString();
  await put(storage, '.publisher.json', theirs);
  await t.rejects(lease.writeState(committed), { code: 'storage_conflict' });
  await lease.release();
  t.equal((await readState(storage)).raw?.digest, digestOf(theirs));
  t.match(warnings, [{ err: { code: 'storage_conflict' } }], 'a failed release is logged');
});

t.test('does not remove a state that it did not write, and can write again after removing one', async (t) => {
  const { storage, removed } = noting(objects());
  const lease = await acquire(storage);
  await lease.restoreState();
  t.same(removed, []);
  await lease.writeState(intent(lease));
  await lease.restoreState();
  t.same(removed, ['.publisher.json']);
  await lease.writeState(intent(lease));
  t.equal((await pendingIn(storage))?.attemptId, 'mine');
  await lease.release();
});

t.test('after the release, nothing is renewed and the holder counts as dead', async (t) => {
  const { storage, writes } = noting(objects());
  const clock = beatingClock();
  const lease = await acquire(storage, 'mine', clock);
  await lease.writeState(intent(lease));
  t.notOk(isKnownDead(lease.holder));
  await lease.release();
  const { length } = writes;
  await clock.beat();
  t.equal(writes.length, length);
  t.ok(isKnownDead(lease.holder));
});

for (const honored of ['create', 'none'] as const)
  t.test(`conditions ${honored}: takes over and replaces an existing state`, async (t) => {
    const storage = objects(honored);
    await put(storage, '.publisher.json', serialiseCatalog(committed).toString());
    const clock = testClock();
    const lease = await acquire(storage, 'mine', clock);
    await lease.writeState(intent(lease));
    t.equal(clock.monotonic(), 2_000, 'other writes have arrived');
    await lease.writeState({ ...committed, generation: 2 });
    t.equal(clock.monotonic(), 2_000, 'a commit does not wait');
    await lease.release();
    t.match((await readState(storage)).state, { catalog: { generation: 2 } });
  });

for (const honored of ['create', 'none'] as const)
  t.test(`conditions ${honored}: a state that vanished counts as changed`, async (t) => {
    const storage = objects(honored);
    await put(storage, '.publisher.json', serialiseCatalog(committed).toString());
    const late = await acquire(storage, 'late');
    await storage.remove('.publisher.json' as never);
    await t.rejects(late.writeState(intent(late)), { code: 'storage_conflict' });
    t.equal((await readState(storage)).raw, null);
    await late.release();

    await put(storage, '.publisher.json', serialiseCatalog(committed).toString());
    const holder = await acquire(storage, 'holder');
    await holder.writeState(intent(holder));
    await storage.remove('.publisher.json' as never);
    await t.rejects(holder.writeState(committed), { code: 'lease_lost' });
    await holder.release();
  });

t.test('a holder fails at its fence if the state lacks its intent', async (t) => {
  for (const found of [null, 'no catalog', serialiseCatalog(committed).toString()]) {
    const storage = objects();
    const lease = await acquire(storage);
    await lease.writeState(intent(lease));
    if (found === null) await storage.remove('.publisher.json' as never);
    else await put(storage, '.publisher.json', found);
    await t.rejects(lease.fence(), { code: 'lease_lost' });
    await lease.release();
  }
});

t.test('without conditions, does not take a state that vanishes in the meantime', async (t) => {
  const inner = objects('none');
  const clock = testClock();
  const lease = await acquire(inner, 'mine', {
    ...clock,
    async sleep(ms, signal) {
      if (ms === 2_000) await inner.remove('.publisher.json' as never);
      await clock.sleep(ms, signal);
    },
  });
  await t.rejects(lease.writeState(intent(lease)), { code: 'storage_conflict' });
  await lease.release();
});

for (const honored of ['full', 'create', 'none'] as const)
  t.test(`conditions ${honored}: only the holder removes the state`, async (t) => {
    let isLost = false;
    const { storage, writes, conditions } = noting(objects(honored), () => isLost);
    const lease = await acquire(storage);
    await t.rejects(
      acquire(storage, 'idle').then(async (idle) => idle.removeState()),
      { code: 'lease_lost' },
    );
    await lease.writeState(intent(lease));
    const version = (await storage.stat('.publisher.json' as never))?.version;
    isLost = true;
    await lease.removeState();
    isLost = false;
    t.equal((await readState(storage)).raw, null, 'a lost response is not a failure');
    t.same(conditions, [honored === 'full' ? { ifVersion: version } : {}]);
    await lease.writeState(intent(lease));
    t.equal(writes.at(-1)?.mode, honored === 'none' ? 'replace' : 'create', 'there is none to replace');
    const theirs = serialiseCatalog(intent({ attemptId: 'theirs', holder: elsewhere })).toString();
    await put(storage, '.publisher.json', theirs);
    await t.rejects(lease.removeState(), { code: 'lease_lost' });
    await lease.release();
    t.equal((await readState(storage)).raw?.digest, digestOf(theirs));
  });

t.test('there is no lease before the intent and after the commit', async (t) => {
  const storage = objects();
  const lease = await acquire(storage);
  await t.rejects(lease.fence(), { code: 'lease_lost' });
  await lease.release();
  const next = await acquire(storage);
  await next.writeState(intent(next));
  await next.writeState(committed);
  await t.rejects(next.fence(), { code: 'lease_lost' });
  await next.release();
});

t.test('checks the digest of a restored state', async (t) => {
  const { storage, writes } = noting(objects());
  await put(storage, '.publisher.json', serialiseCatalog(committed).toString());
  const lease = await acquire(storage);
  await lease.writeState(intent(lease));
  await lease.restoreState();
  t.equal(writes.at(-1)?.digest, digestOf(serialiseCatalog(committed)));
  await lease.release();
});

for (const honored of ['full', 'create', 'none'] as const)
  t.test(`conditions ${honored}: a removal that is refused or gets no response does not count`, async (t) => {
    let failure = new WaybillError('storage_denied', 'no');
    const inner = objects(honored);
    const storage = { ...inner, remove: async () => Promise.reject(failure) };
    const lease = await acquire(storage);
    await lease.writeState(intent(lease));
    await t.rejects(lease.removeState(), failure);
    await t.rejects(lease.restoreState(), failure);
    failure = new WaybillError('storage_transient', 'no answer');
    await t.rejects(lease.removeState(), { code: 'commit_unknown' });
    await lease.fence();
    await lease.release();
  });

t.test('does not remove a state that another attempt took over after the fence', async (t) => {
  const theirs = serialiseCatalog(intent({ attemptId: 'theirs', holder: elsewhere })).toString();
  for (const act of ['removeState', 'restoreState'] as const) {
    const inner = objects();
    const storage: Storage = {
      ...inner,
      remove: async (key, how) => {
        await put(inner, '.publisher.json', theirs);
        await inner.remove(key, how);
      },
    };
    const lease = await acquire(storage);
    await lease.writeState(intent(lease));
    await t.rejects(lease[act](), { code: 'lease_lost' }, act);
    t.ok(lease.signal.aborted);
    await lease.release();
    t.equal((await readState(inner)).raw?.digest, digestOf(theirs));
  }
});

t.test('a holder whose intent got no response fails at its fence if the state vanished', async (t) => {
  let isLost = true;
  const { storage } = noting(objects(), () => isLost);
  const lease = await acquire(storage);
  await lease.writeState(intent(lease));
  isLost = false;
  await lease.fence();
  await storage.remove('.publisher.json' as never);
  await t.rejects(lease.fence(), { code: 'lease_lost' });
  await lease.release();
});

t.test('reads a state again that vanishes while its lost response is examined', async (t) => {
  let isLost = false;
  const { storage: inner } = noting(objects(), () => isLost);
  const storage: Storage = { ...inner, stat: async (key) => (isLost ? undefined : inner.stat(key)) };
  const lease = await acquire(storage);
  isLost = true;
  await lease.writeState(intent(lease));
  isLost = false;
  await storage.remove('.publisher.json' as never);
  await t.rejects(lease.writeState(committed), { code: 'lease_lost' });
  await lease.release();
});

t.test('a holder that renews its intent keeps the lease, and its contender stops', async (t) => {
  const storage = objects();
  const theirs = intent({ attemptId: 'theirs', holder: elsewhere });
  const renewed = async (renewals: number): Promise<void> => {
    const pending = theirs.pending && { ...theirs.pending, renewals };
    await put(storage, '.publisher.json', serialiseCatalog({ ...theirs, pending }).toString());
  };
  await renewed(0);
  const clock = testClock();
  let renewals = 0;
  let beats: AbortSignal | undefined;
  const renewing = {
    ...clock,
    async sleep(ms: number, signal?: AbortSignal) {
      if (ms === defaultLeaseTimes.renewEveryMs) beats = signal;
      else await renewed((renewals += 1));
      await clock.sleep(ms, signal);
    },
  };
  await t.rejects(acquire(storage, 'mine', renewing), {
    code: 'destination_busy',
    message: /process 7 on another/,
  });
  t.ok(clock.monotonic() >= defaultLeaseTimes.waitMs && clock.monotonic() < defaultLeaseTimes.staleAfterMs);
  t.ok(beats?.aborted, 'there are no more renewals');
});

t.test('takes no lease after an abort or a suspension', async (t) => {
  const reason = new Error('stop');
  const clock = beatingClock();
  const options = { clock, log: silentLog, attemptId: 'mine', times: defaultLeaseTimes };
  await t.rejects(acquireStateLease(objects(), { ...options, signal: AbortSignal.abort(reason) }), reason);
  const storage = objects();
  const theirs = intent({ attemptId: 'theirs', holder: elsewhere });
  await put(storage, '.publisher.json', serialiseCatalog(theirs).toString());
  const suspended = {
    ...clock,
    async sleep(ms: number, signal?: AbortSignal) {
      if (ms !== defaultLeaseTimes.pollEveryMs) return clock.sleep(ms, signal);
      await put(storage, '.publisher.json', serialiseCatalog(committed).toString());
      await clock.pass(defaultLeaseTimes.abortAfterMs + 1);
    },
  };
  await t.rejects(acquire(storage, 'mine', suspended), { code: 'lease_lost' });
});
