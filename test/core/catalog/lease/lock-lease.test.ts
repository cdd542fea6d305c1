import t from 'tap';
import type { Catalog } from '../../../../src/core/catalog/catalog.ts';
import { readState, stateKey } from '../../../../src/core/catalog/catalog-store.ts';
import { defaultLeaseTimes, type Lease } from '../../../../src/core/catalog/lease/lease.ts';
import { lockKey, lockText, readLock } from '../../../../src/core/catalog/lease/lock-file.ts';
import { acquireLockLease } from '../../../../src/core/catalog/lease/lock-lease.ts';
import { isKnownDead, markDead, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../../src/core/lib/log.ts';
import type { RenamingStorage, Storage } from '../../../../src/core/storage/storage.ts';
import { type FaultLog, withFaults } from '../../../faults/with-faults.ts';
import { put, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';
import { beatingClock } from './beating-clock.ts';

const files = (): Storage => memoryStorage({ flavour: 'files' });
const elsewhere = { host: 'another', pid: 7, bootId: 'b', process: null, thread: null, instanceId: 'theirs' };
const empty: Catalog = {
  generation: 1,
  updatedAt: '2026-11-20T00:00:00Z',
  bundles: [],
  outputs: [],
  pending: null,
};

function acquire(
  storage: Storage,
  attemptId = 'mine',
  clock = testClock(),
  log: Log = silentLog,
): Promise<Lease> {
  return acquireLockLease(storage as RenamingStorage, { clock, log, attemptId, times: defaultLeaseTimes });
}

function watched(storage: Storage): { storage: Storage; calls: string[] } {
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  return { storage: withFaults(storage, null, log), calls: log.operations };
}

t.test('the lock names its holder and is removed on release', async (t) => {
  const storage = files();
  const lease = await acquire(storage);
  t.match(JSON.parse((await readLock(storage)) ?? ''), { instance_id: lease.holder.instanceId, renewals: 0 });
  t.same(lease.found, { state: { kind: 'absent' }, raw: null });
  await lease.fence();
  await lease.release();
  t.equal((await snapshot(storage)).size, 0);
});

t.test('sweeps the staging of other attempts before the lease is held', async (t) => {
  const storage = files();
  await put(storage, '.publisher.tmp/old/output-0', 'x');
  await put(storage, '.publisher.tmp/stray', 'x');
  await put(storage, '.publisher.tmp/mine/stolen.lock', 'x');
  const lease = await acquire(storage);
  t.same([...(await snapshot(storage)).keys()].sort(), [
    '.publisher.lock',
    '.publisher.tmp/mine/stolen.lock',
  ]);
  await lease.release();
});

t.test('a lock overwritten by another holder during the sweep is not held', async (t) => {
  const inner = files();
  await put(inner, '.publisher.tmp/old/output-0', 'x');
  let overwritten = false;
  const storage: Storage = {
    ...inner,
    async removeTree(directory) {
      if (!overwritten) await put(inner, lockKey, lockText(elsewhere, 3));
      overwritten = true;
      await inner.removeTree(directory);
    },
  };
  const clock = testClock();
  const lease = await acquire(storage, 'mine', clock);
  t.ok(
    clock.monotonic() >= defaultLeaseTimes.staleAfterMs,
    'the contender waited until the other one was stale',
  );
  await lease.fence();
  await lease.release();
});

t.test('a lock without renewals is taken over only once it is stale', async (t) => {
  const storage = files();
  await put(storage, lockKey, lockText(elsewhere, 0));
  const clock = testClock();
  const lease = await acquire(storage, 'mine', clock);
  t.ok(clock.monotonic() >= defaultLeaseTimes.staleAfterMs);
  t.ok(clock.monotonic() <= defaultLeaseTimes.staleAfterMs + defaultLeaseTimes.pollEveryMs);
  await lease.release();
});

t.test('the lock of a dead holder is taken over immediately', async (t) => {
  const storage = files();
  const dead = newHolder();
  markDead(dead);
  await put(storage, lockKey, lockText(dead, 0));
  const clock = testClock();
  await (await acquire(storage, 'mine', clock)).release();
  t.equal(clock.monotonic(), 0);
});

t.test('a holder that renews its lock keeps it, and the contender fails', async (t) => {
  const storage = files();
  let renewals = 0;
  const clock = testClock();
  const renewing = {
    ...clock,
    async sleep(ms: number, signal?: AbortSignal) {
      renewals += 1;
      await put(storage, lockKey, lockText(elsewhere, renewals));
      await clock.sleep(ms, signal);
    },
  };
  await put(storage, lockKey, lockText(elsewhere, 0));
  await t.rejects(acquire(storage, 'mine', renewing), {
    code: 'destination_busy',
    message: /process 7 on another/,
  });
  t.ok(clock.monotonic() >= defaultLeaseTimes.waitMs && clock.monotonic() < defaultLeaseTimes.staleAfterMs);
});

t.test('releases the lock if the state cannot be read', async (t) => {
  const inner = files();
  const storage: Storage = {
    ...inner,
    async *read(key) {
      if (key === '.publisher.json') throw new Error('unreadable');
      yield* inner.read(key);
    },
  };
  await t.rejects(acquire(storage), { message: 'unreadable' });
  t.equal((await snapshot(inner)).size, 0);
});

t.test('stages, fences and renames each write of the state, and syncs the last one', async (t) => {
  const { storage, calls } = watched(files());
  const lease = await acquire(storage);
  const pending = {
    attemptId: 'mine',
    owner: { pipelineId: 'p', destinationId: 'd' },
    action: 'publish_new' as const,
    startedAt: '2026-11-20T00:00:00Z',
    holder: lease.holder,
    renewals: 0,
    outputs: [],
    removes: [],
  };
  calls.length = 0;
  await lease.writeState({ ...empty, pending });
  t.same(calls, [
    'write .publisher.tmp/mine/state-1',
    'read .publisher.lock',
    'rename .publisher.tmp/mine/state-1 .publisher.json',
  ]);
  calls.length = 0;
  await lease.writeState(empty);
  t.same(calls, [
    'write .publisher.tmp/mine/state-2',
    'read .publisher.lock',
    'rename .publisher.tmp/mine/state-2 .publisher.json',
    'sync',
  ]);
  t.match((await readState(storage)).state, { kind: 'valid', catalog: empty });
  await lease.release();
});

t.test('a holder whose lock was taken over is fenced and keeps the new lock', async (t) => {
  const storage = files();
  const lease = await acquire(storage);
  await put(storage, lockKey, lockText(elsewhere, 0));
  await t.rejects(lease.fence(), { code: 'lease_lost' });
  await t.rejects(lease.writeState(empty), { code: 'lease_lost' });
  await t.rejects(lease.restoreState(), { code: 'lease_lost' });
  t.ok(lease.signal.aborted);
  await lease.release();
  t.same([...(await snapshot(storage)).keys()], ['.publisher.lock']);
});

t.test('restores the state to its original bytes or to none', async (t) => {
  const storage = files();
  const first = await acquire(storage);
  await first.writeState(empty);
  await first.restoreState();
  t.equal((await readState(storage)).raw, null);
  await first.writeState(empty);
  await first.release();
  const before = (await readState(storage)).raw?.digest;
  t.type(before, 'string');
  const second = await acquire(storage, 'second');
  await second.writeState({ ...empty, generation: 2 });
  await second.restoreState();
  t.equal((await readState(storage)).raw?.digest, before);
  await second.release();
});

t.test('renews the lock at each beat until another holder takes it over', async (t) => {
  const storage = files();
  const clock = beatingClock();
  const lease = await acquire(storage, 'mine', clock);
  await clock.beat();
  t.match(JSON.parse((await readLock(storage)) ?? ''), { renewals: 1 });
  await clock.beat();
  t.match(JSON.parse((await readLock(storage)) ?? ''), { renewals: 2 });
  await put(storage, lockKey, lockText(elsewhere, 0));
  await clock.beat();
  t.match(JSON.parse((await readLock(storage)) ?? ''), { instance_id: 'theirs' });
  t.throws(() => lease.check(), { code: 'lease_lost' });
  await lease.release();
});

t.test('syncs a restored state', async (t) => {
  const { storage, calls } = watched(files());
  await put(storage, '.publisher.json', 'as it was');
  const lease = await acquire(storage);
  calls.length = 0;
  await lease.restoreState();
  t.same(calls.slice(-2), ['rename .publisher.tmp/mine/state-1 .publisher.json', 'sync']);
  await lease.release();
});

t.test('syncs a committed state even if the response to its rename was lost', async (t) => {
  const inner = files();
  const { storage, calls } = watched({
    ...inner,
    async rename(moves) {
      await inner.rename!(moves);
      throw new WaybillError('storage_transient', 'no answer');
    },
  });
  const lease = await acquire(storage);
  await lease.writeState(empty);
  t.equal(calls.at(-1), 'sync');
  await lease.release();
});

t.test('reads back a state with a lost response before reporting it as unknown', async (t) => {
  const inner = files();
  let isLost = false;
  const lost = new WaybillError('storage_transient', 'no answer');
  const storage: Storage = {
    ...inner,
    async rename(moves) {
      if (isLost || moves[0]?.to !== stateKey) await inner.rename!(moves);
      if (moves[0]?.to === stateKey) throw lost;
    },
  };
  const lease = await acquire(storage);
  await t.rejects(lease.writeState(empty), { code: 'commit_unknown' });
  isLost = true;
  await lease.writeState(empty);
  t.match(await readState(inner), { state: { kind: 'valid', catalog: empty } });
  await lease.release();
});

t.test('after the release, nothing is renewed and the holder counts as dead', async (t) => {
  const storage = files();
  const clock = beatingClock();
  const lease = await acquire(storage, 'mine', clock);
  t.notOk(isKnownDead(lease.holder));
  await lease.release();
  await clock.beat();
  t.equal((await snapshot(storage)).size, 0);
  t.ok(isKnownDead(lease.holder), 'no contender waits for its remaining lock');
});

t.test('a failed release is logged and keeps the lock, and the next contender does not wait', async (t) => {
  const inner = files();
  const refused = new WaybillError('storage_denied', 'no');
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const storage: Storage = {
    ...inner,
    remove: async (key) => (key === lockKey ? Promise.reject(refused) : inner.remove(key)),
  };
  await (await acquire(storage, 'mine', testClock(), log)).release();
  t.match(warnings, [{ storage: inner.label, err: refused }]);
  const clock = testClock();
  await (await acquire(inner, 'next', clock)).release();
  t.equal(clock.monotonic(), 0);
});

t.test('releases the lock on a failure after its creation', async (t) => {
  const inner = files();
  const refused = new WaybillError('storage_denied', 'no');
  const storage: Storage = {
    ...inner,
    list: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(refused) }) }),
  };
  await t.rejects(acquire(storage), refused);
  t.equal((await snapshot(inner)).size, 0);
});

t.test('a contender that fails sends no further requests', async (t) => {
  const { storage, calls } = watched(files());
  await put(storage, lockKey, lockText(elsewhere, 0));
  let beats: AbortSignal | undefined;
  const clock = testClock();
  let renewals = 0;
  const watching = {
    ...clock,
    async sleep(ms: number, signal?: AbortSignal) {
      if (ms === defaultLeaseTimes.renewEveryMs) beats = signal;
      else await put(storage, lockKey, lockText(elsewhere, (renewals += 1)));
      await clock.sleep(ms, signal);
    },
  };
  await t.rejects(acquire(storage, 'mine', watching), { code: 'destination_busy' });
  t.ok(beats?.aborted);
  t.notOk(calls.some((call) => call.startsWith('remove')));
});

t.test('a contender that failed counts as dead even if it left a lock', async (t) => {
  const inner = files();
  const refused = new WaybillError('storage_denied', 'no');
  const storage: Storage = {
    ...inner,
    async write(key, body, how) {
      await inner.write(key, body, how);
      throw refused;
    },
  };
  await t.rejects(acquire(storage), refused);
  const clock = testClock();
  await (await acquire(inner, 'next', clock)).release();
  t.equal(clock.monotonic(), 0);
});

t.test('takes no lock after the signal aborted', async (t) => {
  const storage = files();
  const reason = new Error('stop');
  const options = { clock: testClock(), log: silentLog, attemptId: 'mine', times: defaultLeaseTimes };
  await t.rejects(
    acquireLockLease(storage as RenamingStorage, { ...options, signal: AbortSignal.abort(reason) }),
    reason,
  );
  t.equal((await snapshot(storage)).size, 0);
});

t.test('writes an unfinished lock again after others swept it', async (t) => {
  const inner = files();
  const gone = new WaybillError('storage_not_found', 'swept');
  let sweeps = 0;
  const storage: Storage = {
    ...inner,
    async write(key, body, how) {
      if (key === lockKey && (sweeps += 1) <= 3) throw gone;
      return inner.write(key, body, how);
    },
  };
  const clock = testClock();
  const lease = await acquire(storage, 'mine', clock);
  t.equal(sweeps, 4);
  t.equal(clock.monotonic(), (3 * defaultLeaseTimes.pollEveryMs) / 50, 'after short pauses');
  await lease.release();
});

t.test('an entry that cannot become a lock is reported immediately', async (t) => {
  const inner = files();
  const exists = new WaybillError('storage_exists', 'there is something');
  const found = { type: 'other' as const, size: 0, version: null, modifiedAt: null };
  const storage: Storage = {
    ...inner,
    write: async () => Promise.reject(exists),
    stat: async () => found,
  };
  const clock = testClock();
  await t.rejects(acquire(storage, 'mine', clock), {
    code: 'storage_permanent',
    message: /"\.publisher\.lock" is not a file/,
    hint: /remove it/,
  });
  t.equal(clock.monotonic(), 0);
});

t.test('a removal of the state with a lost response counts as done', async (t) => {
  const inner = files();
  let isApplied = false;
  const lost = new WaybillError('storage_transient', 'no answer');
  const storage: Storage = {
    ...inner,
    async remove(key) {
      if (isApplied || key !== stateKey) await inner.remove(key);
      if (key === stateKey) throw lost;
    },
  };
  const lease = await acquire(storage);
  await lease.writeState(empty);
  await t.rejects(lease.removeState(), { code: 'commit_unknown' });
  isApplied = true;
  await lease.removeState();
  t.equal((await readState(inner)).raw, null);
  await lease.release();
});

t.test('a contender that was suspended while waiting takes no lock', async (t) => {
  const { storage, calls } = watched(files());
  await put(storage, lockKey, lockText(elsewhere, 0));
  const clock = beatingClock();
  const suspended = {
    ...clock,
    async sleep(ms: number, signal?: AbortSignal) {
      if (ms !== defaultLeaseTimes.pollEveryMs) return clock.sleep(ms, signal);
      await storage.remove(lockKey);
      calls.length = 0;
      await clock.pass(defaultLeaseTimes.abortAfterMs + 1);
    },
  };
  await t.rejects(acquire(storage, 'mine', suspended), { code: 'lease_lost' });
  t.same(calls, [], 'its bundle may be outdated');
});

t.test('stages a state without syncing, and restores only the bytes found', async (t) => {
  const inner = files();
  await put(inner, '.publisher.json', 'as it was');
  const writes: object[] = [];
  const storage: Storage = {
    ...inner,
    write: async (key, body, options) => {
      if (key !== lockKey) writes.push(options);
      return inner.write(key, body, options);
    },
  };
  const lease = await acquire(storage);
  await lease.writeState(empty);
  await lease.restoreState();
  t.same(writes, [{ mode: 'scratch' }, { mode: 'scratch', digest: digestOf('as it was') }]);
  await lease.release();
});

t.test('contends again for a lock that others took first, and reports any other failure', async (t) => {
  const dead = newHolder();
  markDead(dead);
  for (const code of ['storage_not_found', 'storage_exists', 'storage_denied'] as const) {
    const inner = files();
    await put(inner, lockKey, lockText(dead, 0));
    const failure = new WaybillError(code, 'for the test');
    const moves: unknown[] = [];
    const storage: Storage = {
      ...inner,
      async rename(given) {
        moves.push(...given);
        await inner.remove(lockKey);
        throw failure;
      },
    };
    if (code === 'storage_denied') await t.rejects(acquire(storage), failure);
    else await (await acquire(storage)).release();
    t.same(moves, [{ from: '.publisher.lock', to: '.publisher.tmp/stolen-mine' }], code);
  }
});

t.test('waits for a lock that appears and disappears', async (t) => {
  const inner = files();
  let tries = 0;
  const storage: Storage = {
    ...inner,
    async write(name, body, how) {
      if (name === lockKey && (tries += 1) === 1) throw new WaybillError('storage_exists', 'it was there');
      return inner.write(name, body, how);
    },
    stat: async (name) =>
      name === lockKey ? { type: 'file', size: 1, version: null, modifiedAt: null } : inner.stat(name),
  };
  await (await acquire(storage)).release();
  t.equal(tries, 2);
});

t.test('sweeps nothing if nothing was left', async (t) => {
  const { storage, calls } = watched(files());
  const lease = await acquire(storage);
  t.same(calls, [
    'write .publisher.lock',
    'list .publisher.tmp',
    'read .publisher.lock',
    'read .publisher.json',
  ]);
  await lease.release();
});
