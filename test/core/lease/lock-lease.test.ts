import t from 'tap';
import type { Catalog } from '../../../src/core/catalog/catalog.ts';
import { readState } from '../../../src/core/catalog/store.ts';
import { defaultLeaseTimes, type Lease } from '../../../src/core/lease/lease.ts';
import { acquireLockLease } from '../../../src/core/lease/lock-lease.ts';
import { lockKey, lockText, readLock } from '../../../src/core/lease/lock-file.ts';
import { newHolder, retire } from '../../../src/core/lease/this-holder.ts';
import { silentLog } from '../../../src/core/log.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { withFaults, type FaultLog } from '../../faults/with-faults.ts';
import { put, snapshot, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';
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

function acquire(storage: Storage, attemptId = 'mine', clock = testClock()): Promise<Lease> {
  return acquireLockLease(storage, { clock, log: silentLog, attemptId, times: defaultLeaseTimes });
}

function watched(storage: Storage): { storage: Storage; calls: string[] } {
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  return { storage: withFaults(storage, null, log), calls: log.operations };
}

t.test('the lock is created, names its holder, and is gone after the release', async (t) => {
  const storage = files();
  const lease = await acquire(storage);
  t.match(JSON.parse((await readLock(storage)) ?? ''), { instance_id: lease.holder.instanceId, renewals: 0 });
  t.same(lease.found, { state: { kind: 'absent' }, raw: null });
  await lease.fence();
  await lease.release();
  t.equal((await snapshot(storage)).size, 0);
});

t.test('the staging of other attempts is swept before the lease is held', async (t) => {
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

t.test('a lock that another wrote over during the sweep is not held', async (t) => {
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
    'the other one was waited for until it was stale',
  );
  await lease.fence();
  await lease.release();
});

t.test('a lock without a sign of life is taken over once it is stale, and not before', async (t) => {
  const storage = files();
  await put(storage, lockKey, lockText(elsewhere, 0));
  const clock = testClock();
  const lease = await acquire(storage, 'mine', clock);
  t.ok(clock.monotonic() >= defaultLeaseTimes.staleAfterMs);
  t.ok(clock.monotonic() <= defaultLeaseTimes.staleAfterMs + defaultLeaseTimes.pollEveryMs);
  await lease.release();
});

t.test('the lock of a holder that is known to be dead is taken over at once', async (t) => {
  const storage = files();
  const dead = newHolder();
  retire(dead);
  await put(storage, lockKey, lockText(dead, 0));
  const clock = testClock();
  await (await acquire(storage, 'mine', clock)).release();
  t.equal(clock.monotonic(), 0);
});

t.test('a holder that renews its lock keeps it, and the contender gives up', async (t) => {
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

t.test('a state that cannot be read gives the lock back', async (t) => {
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

t.test('each write of the state is staged, fenced and renamed; the last one is synced', async (t) => {
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

t.test('a holder whose lock was taken over is fenced off, and leaves the new lock alone', async (t) => {
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

t.test('the state is put back as it was found: its bytes, or none', async (t) => {
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

t.test('the lock is renewed at each beat, and not once another has taken it over', async (t) => {
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
