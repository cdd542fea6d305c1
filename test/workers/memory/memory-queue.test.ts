import t from 'tap';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { memoryQueue } from '../../../src/workers/memory/memory-queue.ts';
import { queueContract, runResult } from '../../contract/queue.ts';
import { manualClock } from '../manual-clock.ts';

queueContract(t, async (settings) => {
  const clock = manualClock();
  return {
    queue: memoryQueue({ clock, log: silentLog, ...settings }),
    elapse: clock.advance,
    waitingSurvives: false,
  };
});

t.test('logs a failed removal of an expired run and continues with the others', async (t) => {
  const clock = manualClock();
  const errors: string[] = [];
  const queue = memoryQueue({
    clock,
    log: { ...silentLog, error: (_fields, message) => void errors.push(message) },
    queueSize: 10,
    maxConcurrency: 1,
    retentionMs: 1_000,
    onExpire: async () => {
      throw new Error('the disk is gone');
    },
  });
  t.teardown(() => queue.close(0));
  await queue.start(async () => runResult('ok'));
  for (const [index, pipelineId] of ['a', 'b'].entries()) {
    const admission = await queue.reserve({ pipelineId });
    const job = { runId: `${pipelineId}.1`, pipelineId, staged: '/staging/x', bundlePath: '.' };
    await admission.accept(job, digestOf(String(index)));
  }
  await clock.advance(0);
  await clock.advance(1_000);
  t.same(errors, Array(2).fill('an expired run could not be removed'));
  t.same(await queue.list(['a'], { limit: 500 }), { runs: [], next: null });
});

t.test('a failed run and its bundle expire, without affecting the rerun', async (t) => {
  const clock = manualClock();
  const [expired, discarded]: [string[], string[]] = [[], []];
  const queue = memoryQueue({
    clock,
    log: silentLog,
    queueSize: 10,
    maxConcurrency: 1,
    retentionMs: 2_000,
    keep: { keepMs: 1_500, maxBundles: 100, maxBytes: 1e9 },
    onExpire: async ({ staged }) => void expired.push(String(staged)),
    discard: async ({ staged }) => void discarded.push(String(staged)),
  });
  t.teardown(() => queue.close(0));
  let end = (): void => undefined;
  const held = new Promise<void>((resolve) => (end = resolve));
  await queue.start(async ({ runId }) => {
    if (runId === 'maps.3') await held;
    return runResult('failed');
  });
  for (const runId of ['maps.1', 'maps.2']) {
    const admission = await queue.reserve({ pipelineId: 'maps' });
    const job = { runId, pipelineId: 'maps', staged: `/staging/${runId}`, bundlePath: '.' };
    await admission.accept(job, digestOf(runId));
    await queue.untilFinished(runId, new AbortController().signal);
  }
  t.match(await queue.rerun('maps.1', 'maps.3'), { replayed: false });
  await clock.advance(1_499);
  t.same(discarded, []);
  await clock.advance(1);
  t.same(discarded, ['/staging/maps.2']);
  await clock.advance(499);
  t.match(await queue.find('maps.1'), { status: 'failed', rerunnable: false });
  await clock.advance(1);
  t.equal(await queue.find('maps.1'), undefined);
  t.same(expired, ['null', 'null'], 'one bundle belongs to another run, and the other was removed before');
  end();
  await queue.untilFinished('maps.3', new AbortController().signal);
  t.match(await queue.bundleUsage(), { bundles: 1 });
  await clock.advance(1_500);
  t.same(discarded, ['/staging/maps.2', '/staging/maps.1']);
});

t.test('reads at most two thousand runs for one page of a list', async (t) => {
  const queue = memoryQueue({
    clock: manualClock(),
    log: silentLog,
    queueSize: 5_000,
    maxConcurrency: 1,
    retentionMs: 1_000,
    onExpire: async () => undefined,
  });
  t.teardown(() => queue.close(0));
  for (let run = 1; run <= 4_100; run++) {
    const pipelineId = run === 50 ? 'b' : 'a';
    const admission = await queue.reserve({ pipelineId });
    await admission.accept({ runId: `${pipelineId}.${run}`, pipelineId, staged: null }, digestOf('{}'));
  }
  const query = { limit: 10, text: 'b.50' };
  const first = await queue.list(['a', 'b'], query);
  t.same(first, { runs: [], next: 'a.2101' });
  const second = await queue.list(['a', 'b'], { ...query, before: first.next });
  t.same(second, { runs: [], next: 'a.101' });
  t.match(await queue.list(['b', 'a'], { ...query, before: second.next }), {
    runs: [{ run_id: 'b.50' }],
    next: null,
  });
});

t.test('a closing queue retries each waiting run once', async (t) => {
  const pauses = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 0.5 };
  const queue = memoryQueue({
    ...{ clock: manualClock(), log: silentLog, queueSize: 10, maxConcurrency: 1, retentionMs: 60_000 },
    onExpire: async () => undefined,
    retries: () => ({ forMs: 3_600_000, whileRetrying: 'pass', hasSingleTarget: false, pauses }),
  });
  const begun: string[] = [];
  await queue.start(async ({ runId }) => {
    begun.push(runId);
    if (runId === 'maps.2' && begun.length > 2) return runResult('ok');
    throw new WaybillError('storage_transient', 'the server is unreachable');
  });
  for (const runId of ['maps.1', 'maps.2']) {
    const admission = await queue.reserve({ pipelineId: 'maps' });
    const job = { runId, pipelineId: 'maps', staged: '/staging/x', bundlePath: runId };
    await admission.accept(job, digestOf(runId));
    while ((await queue.find(runId))?.attempt !== 2) await new Promise((resolve) => setImmediate(resolve));
  }
  t.same(await queue.close(60_000), { unfinished: [] });
  t.same(begun, ['maps.1', 'maps.2', 'maps.1', 'maps.2']);
  t.match(await queue.find('maps.1'), { status: 'failed', error: { code: 'storage_transient' } });
  t.match(await queue.find('maps.2'), { status: 'succeeded' });
});
