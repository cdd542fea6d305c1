import t from 'tap';
import { destinationBusy, isContention } from '../../../../src/core/catalog/lease/lease.ts';
import {
  createLock,
  isAbandoned,
  lockKey,
  lockText,
  ownsLock,
  readLock,
  renewLock,
} from '../../../../src/core/catalog/lease/lock-file.ts';
import { markDead, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import type { RenamingStorage, Storage, WriteOptions } from '../../../../src/core/storage/storage.ts';
import { put, snapshot } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const elsewhere = { host: 'another', pid: 7, bootId: 'b', process: null, thread: null, instanceId: 'theirs' };
const files = (): Storage => memoryStorage({ flavour: 'files' });

t.test('a lock with a lost response counts as created only if it exists', async (t) => {
  const lost = new WaybillError('storage_transient', 'no answer');
  const holder = newHolder();
  for (const isApplied of [true, false]) {
    const inner = files();
    const storage: Storage = {
      ...inner,
      async write(key, body, how) {
        if (isApplied) await inner.write(key, body, how);
        throw lost;
      },
    };
    if (isApplied) t.equal(await createLock(storage, holder), true);
    else await t.rejects(createLock(storage, holder), lost);
  }
  const inner = files();
  await put(inner, lockKey, lockText(elsewhere, 0));
  t.equal(await createLock(inner, holder), false, "another publisher's lock is not ours");
  const refused = new WaybillError('storage_denied', 'no');
  await put(inner, lockKey, lockText(holder, 0));
  const denying: Storage = { ...inner, write: async () => Promise.reject(refused) };
  await t.rejects(createLock(denying, holder), refused, 'a refusal counts as such, whatever exists');
});

t.test('a missing or malformed lock has no owner, and an unreadable one is an error', async (t) => {
  const storage = files();
  const holder = newHolder();
  t.equal(await readLock(storage), null);
  t.equal(await ownsLock(storage, holder), false);
  await put(storage, lockKey, 'not a lock');
  t.equal(await ownsLock(storage, holder), false);
  t.equal(await isAbandoned(storage), false);
  const denied = new WaybillError('storage_denied', 'no');
  const unreadable: Storage = {
    ...storage,
    read: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(denied) }) }),
  };
  await t.rejects(readLock(unreadable), denied);
});

t.test('only the lock of a dead holder is abandoned, and a missing lock is not read', async (t) => {
  const inner = files();
  let reads = 0;
  const storage: Storage = {
    ...inner,
    read(key) {
      reads += 1;
      return inner.read(key);
    },
  };
  t.equal(await isAbandoned(storage), false);
  t.equal(reads, 0);
  const holder = newHolder();
  await put(inner, lockKey, lockText(holder, 0));
  t.equal(await isAbandoned(storage), false);
  markDead(holder);
  t.equal(await isAbandoned(storage), true);
});

t.test("a renewal is staged in its attempt's directory, which the next holder sweeps", async (t) => {
  const inner = files();
  const holder = newHolder();
  await createLock(inner, holder);
  const writes: [string, WriteOptions][] = [];
  const storage: Storage = {
    ...inner,
    async write(key, body, how) {
      writes.push([key, how]);
      return inner.write(key, body, how);
    },
  };
  const renew = renewLock(storage as RenamingStorage, holder, 'mine');
  await renew();
  t.same(writes, [['.publisher.tmp/mine/renewed.lock', { mode: 'scratch' }]]);
  t.equal(await readLock(inner), lockText(holder, 1));
  await put(inner, lockKey, lockText(elsewhere, 0));
  await t.rejects(renew(), { code: 'lease_lost' });
  t.equal((await snapshot(inner)).get('.publisher.lock'), lockText(elsewhere, 0));
});

t.test('names a known publisher, and treats only conflicts as contention', async (t) => {
  t.match(destinationBusy({ label: 'here' }, elsewhere).message, /process 7 on another is publishing/);
  t.match(destinationBusy({ label: 'here' }, null).message, /another publisher is publishing/);
  t.ok(isContention(new WaybillError('storage_exists', '')));
  t.ok(isContention(new WaybillError('storage_conflict', '')));
  t.notOk(isContention(new WaybillError('storage_denied', '')));
});
