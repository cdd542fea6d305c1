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
    t.same(await queue.list('a', { limit: 500 }), { runs: [], more: false });
  },
);
