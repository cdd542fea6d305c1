import fc from 'fast-check';
import t from 'tap';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import {
  isRerunnable,
  needsBundle,
  type RetainedBundle,
  selectEvictions,
} from '../../../src/workers/queue/bundle-retention.ts';
import type { PublishJob } from '../../../src/workers/queue/job.ts';
import type { BundleUsage } from '../../../src/workers/queue/job-queue.ts';
import { cancelled } from '../../../src/workers/queue/refusals.ts';
import { acceptedRun, failedRun, queuedRun } from '../../../src/workers/queue/run-transitions.ts';

const bundles = (...sizes: number[]): RetainedBundle[] =>
  sizes.map((bytes, index) => ({ runId: `maps.${index + 1}`, bytes }));
const sumOf = (kept: RetainedBundle[]): BundleUsage => ({
  bundles: kept.length,
  bytes: kept.reduce((sum, { bytes }) => sum + bytes, 0),
});
const idsBeyond = (kept: RetainedBundle[], maxBundles: number, maxBytes: number): string[] =>
  selectEvictions(kept, sumOf(kept), { maxBundles, maxBytes }).map(({ runId }) => runId);

t.test('removes the oldest bundles until the others are within the limits', async (t) => {
  t.same(idsBeyond(bundles(1, 1, 1), 3, 3), []);
  t.same(idsBeyond(bundles(1, 1, 1), 2, 100), ['maps.1']);
  t.same(idsBeyond(bundles(5, 1, 1), 100, 2), ['maps.1']);
  t.same(idsBeyond(bundles(1, 5, 1), 100, 2), ['maps.1', 'maps.2']);
  t.same(
    idsBeyond(bundles(1, 1, 9), 100, 2),
    ['maps.1', 'maps.2', 'maps.3'],
    'one that exceeds the limit alone is not stored',
  );
  t.same(idsBeyond(bundles(0), 0, 100), ['maps.1']);
  t.same(idsBeyond([], 0, 0), []);
  function* one(): Generator<RetainedBundle> {
    yield { runId: 'maps.1', bytes: 5 };
    t.fail('none of a hundred thousand remaining ones is read');
  }
  const limits = { maxBundles: 100_000, maxBytes: 100 };
  t.same(selectEvictions(one(), { bundles: 100_000, bytes: 100 }, limits), []);
});

t.test('keeps as many of the newest bundles as the limits allow (property)', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { maxLength: 12 }), fc.nat(8), fc.nat(30), (sizes, most, maxBytes) => {
      const kept = bundles(...sizes);
      const gone = selectEvictions(kept, sumOf(kept), { maxBundles: most, maxBytes });
      const fits = (some: RetainedBundle[]): boolean =>
        some.length <= most && some.reduce((sum, { bytes }) => sum + bytes, 0) <= maxBytes;
      const isOldest = gone.every((bundle, index) => bundle === kept[index]);
      return (
        isOldest && fits(kept.slice(gone.length)) && (gone.length === 0 || !fits(kept.slice(gone.length - 1)))
      );
    }),
  );
  t.pass('no counterexample');
});

t.test('a run needs its bundle until its record expires, unless it was cancelled', async (t) => {
  const at = new Date();
  const job: PublishJob = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/a', bundlePath: '.' };
  const waiting = queuedRun(acceptedRun(job, at), at);
  const failed = failedRun(waiting, errorRecord(new WaybillError('worker_failed', 'broke')), at);
  const stopped = failedRun(waiting, errorRecord(cancelled()), at);
  const succeeded = { ...failed, status: 'succeeded', error: null } as const;
  const needed = [waiting, failed, stopped, succeeded].map((record) =>
    needsBundle({ job, bundle: 'staged', record }),
  );
  t.same(needed, [true, true, false, true]);
  t.equal(needsBundle({ job, bundle: 'gone', record: failed }), false, 'another run uses it, or none');
  t.same(
    [failed, stopped, succeeded].map((record) => isRerunnable(job, record)),
    [true, false, true],
  );
  const ofSource: PublishJob = { runId: 'maps.1', pipelineId: 'maps', staged: null };
  t.equal(isRerunnable(ofSource, succeeded), true, 'the source is read again');
});
