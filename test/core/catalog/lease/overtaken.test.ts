import t, { type Test } from 'tap';
import type { Catalog } from '../../../../src/core/catalog/catalog.ts';
import { defaultLeaseTimes, type Lease, leaseLost } from '../../../../src/core/catalog/lease/lease.ts';
import { lockKey, lockText, readLock } from '../../../../src/core/catalog/lease/lock-file.ts';
import { markDead, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import { acquireLease, guardWithLease } from '../../../../src/core/catalog/lease/with-lease.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { put, snapshot } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';
import { type BeatingClock, beatingClock } from './beating-clock.ts';

/** The steps of a publisher that was overtaken, as far as no other test covers them. */

const elsewhere = { host: 'another', pid: 7, bootId: 'b', process: null, thread: null, instanceId: 'theirs' };
const empty: Catalog = {
  generation: 1,
  updatedAt: '2026-11-20T00:00:00Z',
  bundles: [],
  outputs: [],
  pending: null,
};
const lost = { code: 'lease_lost' };
const tooLongMs = 200_000;

async function acquire(storage: Storage, clock = beatingClock()): Promise<Lease> {
  return acquireLease(storage, { clock, log: silentLog, attemptId: 'mine', times: defaultLeaseTimes });
}

/** Another publisher takes over the lock, the state and a staging directory. */
async function takeOver(storage: Storage): Promise<void> {
  await put(storage, lockKey, lockText(elsewhere, 3));
  await put(storage, '.publisher.json', 'their state');
  await put(storage, '.publisher.tmp/theirs/output-0', 'their output');
}

/** Calls `then` once, after a call of `method` for `about` has returned. */
function after(
  inner: Storage,
  method: 'read' | 'create' | 'list',
  about: string,
  then: () => Promise<void>,
): Storage {
  let isDone = false;
  const done = async (name: string, what: string): Promise<void> => {
    if (isDone || name !== method || what !== about) return;
    isDone = true;
    await then();
  };
  return {
    ...inner,
    async *read(name) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of inner.read(name)) chunks.push(chunk);
      await done('read', name);
      yield* chunks;
    },
    async write(name, body, how) {
      const written = await inner.write(name, body, how);
      if (how.mode === 'create') await done('create', name);
      return written;
    },
    async *list(directory, how) {
      const entries = [];
      for await (const entry of inner.list(directory, how)) entries.push(entry);
      await done('list', directory);
      yield* entries;
    },
  };
}

async function keepsTheirs(t: Test, storage: Storage): Promise<void> {
  const files = await snapshot(storage);
  t.match(JSON.parse(files.get('.publisher.lock') ?? ''), { instance_id: 'theirs', renewals: 3 });
  t.equal(files.get('.publisher.json'), 'their state');
  t.equal(files.get('.publisher.tmp/theirs/output-0'), 'their output');
}

t.test('restoring "no state" does not delete the state of the next holder', async (t) => {
  const storage = memoryStorage({ flavour: 'files' });
  const lease = await acquire(storage);
  await takeOver(storage);
  await t.rejects(lease.restoreState(), lost);
  await keepsTheirs(t, storage);
  await lease.release();
  await keepsTheirs(t, storage);
});

for (const [what, act] of Object.entries({
  'restores "no state"': async (lease: Lease) => lease.restoreState(),
  'writes the state': async (lease: Lease) => lease.writeState(empty),
  'removes the state': async (lease: Lease) => lease.removeState(),
}))
  t.test(`a holder that ${what} and is suspended while it reads its lock changes nothing`, async (t) => {
    const inner = memoryStorage({ flavour: 'files' });
    const clock = beatingClock();
    let isHeld = false;
    const suspended = after(inner, 'read', lockKey, async () => {
      await clock.pass(tooLongMs);
      await takeOver(inner);
    });
    const lease = await acquire({ ...inner, read: (name) => (isHeld ? suspended : inner).read(name) }, clock);
    isHeld = true;
    await t.rejects(act(lease), lost);
    await keepsTheirs(t, inner);
    await lease.release();
    await keepsTheirs(t, inner);
  });

t.test('a holder suspended during its last read of the lock keeps the next lock', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const clock = beatingClock();
  let isReleasing = false;
  const suspended = after(inner, 'read', lockKey, async () => {
    await clock.pass(tooLongMs);
    await takeOver(inner);
  });
  const storage = { ...inner, read: (name: never) => (isReleasing ? suspended : inner).read(name) };
  const lease = await acquire(storage, clock);
  isReleasing = true;
  await lease.release();
  await keepsTheirs(t, inner);
});

for (const [when, method, about] of [
  ['once it has created the lock', 'create', lockKey],
  ['once it has listed staging', 'list', '.publisher.tmp'],
  ['once it has read its lock', 'read', lockKey],
] as const)
  t.test(`a contender that is suspended ${when} sweeps nothing of the next holder`, async (t) => {
    const inner = memoryStorage({ flavour: 'files' });
    await put(inner, '.publisher.tmp/old/output-0', 'old');
    const clock = beatingClock();
    const storage = after(inner, method, about, async () => {
      await clock.pass(tooLongMs);
      await takeOver(inner);
    });
    await t.rejects(acquire(storage, clock), lost);
    await keepsTheirs(t, inner);
    t.ok((await snapshot(inner)).has('.publisher.tmp/old/output-0'));
  });

t.test('a contender that was overtaken without a suspension sweeps nothing', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const stop = new AbortController();
  const storage = after(inner, 'create', lockKey, async () => takeOver(inner));
  const clock: BeatingClock = {
    ...beatingClock(),
    // It waits for the next holder, which is all that this test checks.
    sleep: async (ms, signal) => {
      if (ms === defaultLeaseTimes.pollEveryMs) stop.abort(new Error('it waits'));
      signal?.throwIfAborted();
      return new Promise((_, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      });
    },
  };
  const options = { clock, log: silentLog, attemptId: 'mine', times: defaultLeaseTimes, signal: stop.signal };
  await t.rejects(acquireLease(storage, options), { message: 'it waits' });
  await keepsTheirs(t, inner);
});

t.test('a contender suspended before it steals the lock steals nothing', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const dead = newHolder();
  markDead(dead);
  await put(inner, lockKey, lockText(dead, 0));
  const clock = beatingClock();
  const storage = after(inner, 'read', lockKey, async () => {
    await clock.pass(tooLongMs);
    await takeOver(inner);
  });
  let thefts = 0;
  const counted: Storage = {
    ...storage,
    async rename(moves) {
      if (moves[0]?.from === lockKey) thefts += 1;
      await inner.rename!(moves);
    },
  };
  await t.rejects(acquire(counted, clock), lost);
  t.equal(thefts, 0, 'it never holds the lock');
  await keepsTheirs(t, inner);
});

t.test('a contender that took a lock other than the stale one restores it', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const dead = newHolder();
  markDead(dead);
  await put(inner, lockKey, lockText(dead, 0));
  const theirs = lockText(elsewhere, 3);
  let seen: string | null = null;
  const storage: Storage = {
    ...inner,
    async rename(moves) {
      if (moves[0]?.from === lockKey && seen === null) {
        seen = '';
        await put(inner, lockKey, theirs);
      }
      await inner.rename!(moves);
    },
    async write(name, body, how) {
      const written = await inner.write(name, body, how);
      if (name === lockKey && seen === '') {
        seen = await readLock(inner);
        await inner.remove(lockKey);
      }
      return written;
    },
  };
  const lease = await acquire(storage);
  t.equal(seen, theirs);
  await lease.release();
  t.equal((await snapshot(inner)).size, 0, 'the lock that it took does not stay in staging');
});

t.test('a contender that was overtaken keeps the lock of a third one and continues', async (t) => {
  for (const quicker of ['has a lock', 'has swept what was taken'] as const) {
    const inner = memoryStorage({ flavour: 'files' });
    const dead = newHolder();
    markDead(dead);
    await put(inner, lockKey, lockText(dead, 0));
    const third = lockText({ ...elsewhere, instanceId: 'third' }, 0);
    let left: string | null = null;
    const storage: Storage = {
      ...inner,
      async rename(moves) {
        const [move] = moves;
        if (move?.from !== lockKey || left !== null) return inner.rename!(moves);
        if (quicker === 'has a lock') await put(inner, lockKey, lockText(elsewhere, 3));
        await inner.rename!(moves);
        if (quicker === 'has a lock') await put(inner, lockKey, third);
        else await inner.remove(move.to);
        left = '';
      },
      async write(name, body, how) {
        const isPuttingBack = quicker === 'has a lock' && name === lockKey && left === '';
        const written = inner.write(name, body, how);
        if (isPuttingBack) {
          await written.catch(() => undefined);
          left = await readLock(inner);
          await inner.remove(lockKey);
        }
        return written;
      },
    };
    const lease = await acquire(storage);
    if (quicker === 'has a lock') t.equal(left, third);
    await lease.release();
    t.equal((await snapshot(inner)).size, 0);
  }
});

t.test('a lock that can never be created is an error', async (t) => {
  const gone = new WaybillError('storage_not_found', 'the directory is gone');
  const storage: Storage = {
    ...memoryStorage({ flavour: 'files' }),
    write: async () => Promise.reject(gone),
  };
  await t.rejects(acquire(storage), gone);
});

t.test('on an object store, an attempt suspended after reading the state does not change it', async (t) => {
  for (const conditionalWrites of ['full', 'create', 'none'] as const) {
    const storage = memoryStorage({ flavour: 'objects', conditionalWrites });
    const clock = beatingClock();
    const late = await acquire(storage, clock);
    await clock.pass(tooLongMs);
    await t.rejects(late.writeState(empty), lost, conditionalWrites);
    t.equal((await snapshot(storage)).size, 0);
    await late.release();

    const second = beatingClock();
    const lease = await acquire(storage, second);
    await lease.writeState(empty);
    await second.pass(tooLongMs);
    await put(storage, '.publisher.json', 'their state');
    await t.rejects(lease.restoreState(), lost, conditionalWrites);
    t.equal((await snapshot(storage)).get('.publisher.json'), 'their state');
    await lease.release();
  }
});

t.test('a contender that was suspended while waiting does not create a lock', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  await put(inner, lockKey, lockText(elsewhere, 0));
  const clock = beatingClock();
  const storage = after(inner, 'read', lockKey, async () => {
    await clock.pass(tooLongMs);
    await inner.remove(lockKey);
  });
  await t.rejects(acquire(storage, clock), lost);
  t.equal((await snapshot(inner)).size, 0);
});

t.test('without conditions, a contender suspended while taking the lease does not get it', async (t) => {
  for (const when of ['while it read the state', 'while other writes landed'] as const) {
    const inner = memoryStorage({ flavour: 'objects', conditionalWrites: 'none' });
    await put(inner, '.publisher.json', 'as it was');
    const beating = beatingClock();
    let isWriting = false;
    const clock: BeatingClock = {
      ...beating,
      sleep: async (ms, signal) => {
        if (ms === 2_000 && when === 'while other writes landed') {
          await beating.pass(tooLongMs);
          await put(inner, '.publisher.json', 'their state');
        }
        return beating.sleep(ms, signal);
      },
    };
    const suspended = after(inner, 'read', '.publisher.json', async () => beating.pass(tooLongMs));
    const isSuspended = (): boolean => isWriting && when === 'while it read the state';
    const storage = { ...inner, read: (name: never) => (isSuspended() ? suspended : inner).read(name) };
    const lease = await acquire(storage, clock);
    isWriting = true;
    await t.rejects(lease.writeState(empty), lost, when);
    const left = when === 'while it read the state' ? 'as it was' : 'their state';
    t.equal((await snapshot(inner)).get('.publisher.json'), left);
    await lease.release();
  }
});

t.test("without the lease, the holder's view changes nothing", async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  await put(inner, 'a', 'a');
  let isLost = false;
  const check = (): void => {
    if (isLost) throw leaseLost(inner, 'for the test');
  };
  const storage = guardWithLease(inner, { check });
  await storage.write(key('b'), bytesBody('b'), { mode: 'replace' });
  const slow = {
    size: 1,
    async *open() {
      yield Buffer.from('x');
      isLost = true;
    },
  };
  await t.rejects(storage.write(key('a'), slow, { mode: 'replace' }), lost, 'lost while the body was read');
  const kept = { key: key('a'), aside: key('aside'), method: 'copy' as const, version: null };
  for (const change of [
    () => storage.write(key('a'), bytesBody('x'), { mode: 'replace' }),
    () => storage.backUp!(key('a'), key('aside')),
    () => storage.restore!(kept),
    () => storage.duplicate!(key('a'), key('c')),
    () => storage.remove(key('a')),
    () => storage.removeTree(key('a')),
  ])
    await t.rejects(async () => change(), lost);
  t.same(
    [...(await snapshot(storage))],
    [
      ['a', 'a'],
      ['b', 'b'],
    ],
  );
});

t.test('passes on results of the storage, and unchanged bodies if outputs are staged', async (t) => {
  const written: unknown[] = [];
  const answers = { size: 1, digest: digestOf('x'), version: 'v' };
  const kept = { key: key('a'), aside: key('aside'), method: 'copy' as const, version: null };
  const body = bytesBody('x');
  for (const flavour of ['files', 'objects'] as const) {
    const held = guardWithLease(
      {
        ...memoryStorage({ flavour }),
        write: async (_key, given) => {
          written.push(given);
          return answers;
        },
        backUp: async () => kept,
      },
      { check: () => undefined },
    );
    t.equal(await held.write(key('a'), body, { mode: 'replace' }), answers);
    t.equal(await held.backUp!(key('a'), key('aside')), kept);
  }
  t.equal(written[0], body, 'a driver may have a faster way to copy it');
  t.not(written[1], body);
});

t.test('stops reading a body once the lease is lost', async (t) => {
  let isLost = false;
  const check = (): void => {
    if (isLost) throw leaseLost({ label: 'memory' }, 'for the test');
  };
  let read = 0;
  const taken: string[] = [];
  const storage = guardWithLease(
    {
      ...memoryStorage({ flavour: 'objects' }),
      async write(_key, body) {
        for await (const chunk of body.open()) taken.push(String(chunk));
        return { size: 0, digest: digestOf(''), version: null };
      },
    },
    { check },
  );
  const body = {
    size: 3,
    async *open() {
      for (const text of ['a', 'b', 'c']) {
        isLost = (read += 1) === 2;
        yield Buffer.from(text);
      }
    },
  };
  await t.rejects(storage.write(key('a'), body, { mode: 'replace' }), lost);
  t.same([taken, read], [['a'], 2]);
});
