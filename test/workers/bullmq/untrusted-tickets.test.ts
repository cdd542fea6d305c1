import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { Log } from '../../../src/core/lib/log.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import { noRunObserver } from '../../../src/workers/queue/run-observer.ts';
import { runResult } from '../../contract/queue.ts';
import { startRedis } from '../../services/redis.ts';

/** Another program puts jobs into BullMQ's queues, or changes those of waybill. */

const server = await startRedis();
t.teardown(() => server.close());
const redis = new Redis(server.url);
t.teardown(() => redis.disconnect());
t.setTimeout(0);

/** Changes the ticket `key`, which may be missing. */
type Damage = (key: string) => Promise<unknown>;

const field =
  (name: string, value: string): Damage =>
  (key) =>
    redis.hset(key, name, value);

const damages: Record<string, Damage> = {
  'data that is not JSON': field('data', 'nonsense'),
  'an array as data': field('data', '[]'),
  'null as data': field('data', 'null'),
  'a number as data': field('data', '5'),
  'another run id in its data': field('data', '{"run_id":7}'),
  '4 MiB of data': field('data', 'x'.repeat(2 ** 22)),
  'options that are not JSON': field('opts', 'nonsense'),
  'null as options': field('opts', 'null'),
  'progress that is not JSON': field('progress', 'nonsense'),
  'a parent that is not JSON': field('parent', 'nonsense'),
  'a number of attempts that is not a number': field('atm', 'nonsense'),
  'a stack trace that is not JSON': field('stacktrace', 'nonsense'),
  'no fields': (key) => redis.del(key),
  'a text in the place of its hash': (key) => redis.multi().del(key).set(key, 'nonsense').exec(),
};

const never = new AbortController().signal;
let prefixes = 0;

async function open(t: Test) {
  const prefix = `tickets-${(prefixes += 1)}`;
  const errors: Record<string, unknown>[] = [];
  const log: Log = { ...silentLog, error: (fields) => void errors.push({ ...fields }) };
  const queue = await BullmqQueue.open({
    clock: systemClock,
    log,
    redis: { url: server.url, urlEnv: 'REDIS_URL', prefix },
    pipelineIds: ['maps'],
    workerTimeoutMs: 5_000,
    queueSize: 100,
    maxConcurrency: 2,
    retentionMs: 60_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
  });
  t.teardown(() => queue.close(0));
  const rejected: string[] = [];
  return {
    queue,
    errors,
    rejected,
    key: (name: string) => `${prefix}:queue:maps:${name}`,
    submit: async (runId: string) => {
      const admission = await queue.reserve({ pipelineId: 'maps' });
      await admission.accept({ runId, pipelineId: 'maps', staged: null }, digestOf('{}'));
    },
    start: () =>
      queue.start(async () => runResult('ok'), {
        ...noRunObserver,
        rejected: ({ pipelineId }) => void rejected.push(pipelineId),
      }),
  };
}

for (const [what, damage] of Object.entries(damages)) {
  t.test(`a foreign job with ${what} is set aside, and the pipeline continues`, async (t) => {
    const { queue, errors, rejected, key, submit, start } = await open(t);
    await redis.hset(key('foreign.1'), { name: 'x', data: '{}', opts: '{}', timestamp: '1' });
    await damage(key('foreign.1'));
    await redis.lpush(key('wait'), 'foreign.1');
    await submit('maps.1');
    await start();
    await queue.untilFinished('maps.1', never);
    t.match(await queue.find('maps.1'), { status: 'succeeded' });
    t.same(await redis.lrange(key('wait'), 0, -1), []);
    t.ok(await redis.zscore(key('failed'), 'foreign.1'), 'boards list it as failed');
    t.match(await redis.hget(key('foreign.1'), 'failedReason'), /job_rejected/);
    t.same(rejected, ['maps']);
    t.match(errors, [{ run_id: 'foreign.1', pipeline_id: 'maps', err: { code: 'job_rejected' } }]);
  });

  t.test(`a run whose ticket has ${what} is published`, async (t) => {
    const { queue, rejected, key, submit, start } = await open(t);
    await submit('maps.1');
    await damage(key('maps.1'));
    await submit('maps.2');
    await start();
    for (const runId of ['maps.1', 'maps.2']) {
      await queue.untilFinished(runId, never);
      t.match(await queue.find(runId), { status: 'succeeded' });
    }
    t.same(rejected, []);
  });
}

for (const id of ['wait', 'meta', 'id', 'a:b', '7', '../x'])
  t.test(`a foreign job called ${id} is removed, and the pipeline continues`, async (t) => {
    const { queue, rejected, key, submit, start } = await open(t);
    await redis.lpush(key('wait'), id);
    await submit('maps.1');
    await start();
    await queue.untilFinished('maps.1', never);
    t.match(await queue.find('maps.1'), { status: 'succeeded' });
    t.equal(await redis.hget(key('meta'), 'concurrency'), '1');
    t.same(rejected, ['maps']);
  });

const numbers: [name: string, damage: (key: (name: string) => string) => Promise<unknown>][] = [
  ['concurrency', (key) => redis.hset(key('meta'), 'concurrency', 'nonsense')],
  ['length of the event stream', (key) => redis.hset(key('meta'), 'opts.maxLenEvents', 'nonsense')],
  ['job counter', (key) => redis.set(key('id'), 'nonsense')],
];
for (const [what, damage] of numbers)
  t.test(`a queue whose ${what} is not a number continues`, async (t) => {
    const { queue, key, submit, start } = await open(t);
    await submit('maps.1');
    await damage(key);
    await submit('maps.2');
    await start();
    for (const runId of ['maps.1', 'maps.2']) await queue.untilFinished(runId, never);
    t.match(await queue.find('maps.2'), { status: 'succeeded' });
  });
