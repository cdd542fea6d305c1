import t from 'tap';
import { silentLog } from '../../../src/core/log.ts';
import { memoryQueue } from '../../../src/workers/memory/queue.ts';
import { queueContract, runResult } from '../../contract/queue.ts';
import { digestOf } from '../../../src/core/digest.ts';
import { manualClock } from '../manual-clock.ts';

queueContract(t, async (settings) => {
  const clock = manualClock();
  return {
    queue: memoryQueue({ clock, log: silentLog, ...settings }),
    elapse: clock.advance,
    waitingSurvives: false,
  };
});

t.test(
  'an expired run that cannot be cleared away is told in the log and does not stop the others',
  async (t) => {
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
    t.same(errors, Array(2).fill('an expired run could not be cleared away'));
    t.same(await queue.list(['a'], { limit: 500 }), { runs: [], next: null });
  },
);

t.test('for one page of a list at most two thousand runs are looked at', async (t) => {
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
