import t from 'tap';
import type { Catalog } from '../../../../src/core/catalog/catalog.ts';
import { readState } from '../../../../src/core/catalog/catalog-store.ts';
import { createIntent } from '../../../../src/core/catalog/lease/lease.ts';
import { lockKey, lockText } from '../../../../src/core/catalog/lease/lock-file.ts';
import { sweepFinished } from '../../../../src/core/catalog/lease/staged-copies.ts';
import { markDead, newHolder } from '../../../../src/core/catalog/lease/this-holder.ts';
import {
  decideUnderLease,
  sweepAbandoned,
  withLease,
} from '../../../../src/core/catalog/lease/with-lease.ts';
import { serialiseCatalog } from '../../../../src/core/catalog/serialise.ts';
import type { ErrorCode } from '../../../../src/core/lib/error-codes.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { put, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const dayMs = 24 * 3_600_000;
const context = (nowMs = 0) => ({
  clock: { ...testClock(), now: () => new Date(nowMs) },
  log: silentLog,
});
const committedAt = '2026-11-20T00:00:00Z';
const committed: Catalog = {
  generation: 2,
  updatedAt: committedAt,
  bundles: [],
  outputs: [],
  pending: null,
};
const names = async (storage: Storage): Promise<string[]> => [...(await snapshot(storage)).keys()].sort();

t.test('holds the lease during the work and releases it after a failure', async (t) => {
  const storage = memoryStorage({ flavour: 'files' });
  const result = await withLease(context(), storage, async (lease) => {
    await lease.fence();
    t.same(await names(storage), ['.publisher.lock']);
    return 'done';
  });
  t.equal(result, 'done');
  t.same(await names(storage), []);
  const failure = new Error('failed');
  await t.rejects(
    withLease(context(), storage, async () => Promise.reject(failure)),
    failure,
  );
  t.same(await names(storage), []);
  const stopped = { ...context(), signal: AbortSignal.abort(failure) };
  await t.rejects(
    withLease(stopped, storage, async () => t.fail('it has no lease')),
    failure,
  );
});

t.test('decides again after contention, and reports a busy destination after ten times', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  const failing = async (code: ErrorCode, times: number): Promise<[decisions: number, code?: string]> => {
    let decisions = 0;
    const work = async (): Promise<void> => {
      decisions += 1;
      if (decisions <= times) throw new WaybillError(code, 'for the test');
    };
    try {
      await decideUnderLease(context(), storage, work);
      return [decisions];
    } catch (error) {
      return [decisions, (error as WaybillError).code];
    }
  };
  t.same(await failing('storage_conflict', 3), [4]);
  for (const code of ['storage_conflict', 'storage_exists'] as const)
    t.same(await failing(code, 100), [10, 'destination_busy'], 'which is retryable');
  t.same(await failing('lease_lost', 1), [1, 'lease_lost']);
});

t.test('sweeps the remains of a dead holder but not of a live one', async (t) => {
  const storage = memoryStorage({ flavour: 'files' });
  const holder = newHolder();
  await put(storage, lockKey, lockText(holder, 0));
  await put(storage, '.publisher.tmp/theirs/output-0', 'x');
  await sweepAbandoned(context(), storage, { kind: 'absent' });
  t.same(await names(storage), ['.publisher.lock', '.publisher.tmp/theirs/output-0']);
  markDead(holder);
  await sweepAbandoned(context(), storage, { kind: 'absent' });
  t.same(await names(storage), []);
});

t.test('sweeps staging without a lock', async (t) => {
  const storage = memoryStorage({ flavour: 'files' });
  await put(storage, '.publisher.tmp/stolen-1', 'x');
  await sweepAbandoned(context(), storage, { kind: 'absent' });
  t.same(await names(storage), []);
});

t.test(
  'on an object store, sweeps copies within a day of a commit, except of a running attempt',
  async (t) => {
    const copies = ['.publisher.tmp/dead/kept-0', '.publisher.tmp/alive/kept-0', '.publisher.tmp/probe-1'];
    const late = Date.parse(committedAt) + dayMs;
    const announced = {
      action: 'replace_catalog' as const,
      startedAt: committedAt,
      outputs: [],
      removes: [],
    };
    const owner = { pipelineId: 'p', destinationId: 'd' };
    const pending = createIntent({ attemptId: 'alive', holder: newHolder() }, { ...announced, owner });
    const all = [...copies].sort();
    for (const [what, catalog, nowMs, left] of [
      ['within the day', committed, late - 1, ['.publisher.tmp/probe-1']],
      ['a day later', committed, late, all],
      ['nothing was replaced yet', { ...committed, generation: 1 }, late - 1, all],
      ['with an intent', { ...committed, pending }, late - 1, all.filter((name) => !name.includes('dead'))],
    ] as const) {
      const storage = memoryStorage({ flavour: 'objects' });
      for (const copy of copies) await put(storage, copy, 'copy');
      await put(storage, '.publisher.json', serialiseCatalog(catalog).toString());
      await sweepAbandoned(context(nowMs), storage, (await readState(storage)).state);
      t.same(await names(storage), ['.publisher.json', ...left], what);
    }
    const storage = memoryStorage({ flavour: 'objects' });
    for (const copy of copies) await put(storage, copy, 'copy');
    await sweepAbandoned(context(late - 1), storage, { kind: 'invalid', reason: 'x' });
    t.same(await names(storage), all, 'without a catalog, their owner is unknown');
  },
);

t.test('sweeps copies without other files next to them, and without a state', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  await put(storage, '.publisher.tmp/dead/kept-0', 'copy');
  await sweepFinished(storage);
  t.same(await names(storage), []);
});
