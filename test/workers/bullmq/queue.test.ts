import t from 'tap';
import { systemClock } from '../../../src/core/clock.ts';
import { silentLog } from '../../../src/core/log.ts';
import { bullmqQueue } from '../../../src/workers/bullmq/queue.ts';
import { queueContract } from '../../contract/queue.ts';
import { startRedis } from '../../services/redis.ts';

const redis = await startRedis();
t.teardown(() => redis.close());

let opened = 0;
queueContract(t, async (settings) => {
  opened += 1;
  const queue = await bullmqQueue({
    clock: systemClock,
    log: silentLog,
    redis: { url: redis.url, urlEnv: 'REDIS_URL', prefix: `contract-${opened}` },
    pipelineIds: ['maps', 'docs', 'a', 'b', 'c', 'd', 'e'],
    workerTimeoutMs: 5_000,
    shared: { share: async (job) => job, remove: async () => undefined },
    ...settings,
  });
  return { queue, elapse: (ms) => systemClock.sleep(ms), waitingSurvives: true };
});
