import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { RedisLink } from '../../../src/workers/bullmq/link.ts';
import { Pipelines } from '../../../src/workers/bullmq/pipelines.ts';
import type { RunStore } from '../../../src/workers/bullmq/run-store.ts';
import { startRedis } from '../../services/redis.ts';
import { manualClock } from '../manual-clock.ts';

const redis = await startRedis();
t.teardown(() => redis.close());

/** Pipelines whose queues open only once `release` is called. */
async function heldPipelines(t: Test) {
  const link = await RedisLink.open({
    ...{ url: redis.url, urlEnv: 'REDIS_URL', prefix: 'waybill' },
    ...{ log: silentLog, clock: systemClock },
  });
  t.teardown(() => link.close());
  const world = { opens: 0, answers: 0, release: (): void => undefined };
  const released = new Promise<void>((resolve) => (world.release = resolve));
  let isHeld = false;
  const slowLink = Object.assign(Object.create(link) as RedisLink, {
    ask: async (work: () => Promise<unknown>) => {
      if (!isHeld) return link.ask(work);
      world.opens += 1;
      await released;
      return link.ask(work).finally(() => (world.answers += 1));
    },
  });
  const clock = manualClock();
  const pipelines = await Pipelines.open({
    ...{ link: slowLink, clock, log: silentLog, store: {} as unknown as RunStore },
    ...{ pipelineIds: [], retentionMs: 60_000, workerTimeoutMs: 60_000 },
  });
  /** Adds pipelines. Only the check of the connection gets an answer. */
  const add = (ids: readonly string[]): Promise<void> => {
    isHeld = false;
    const adding = pipelines.add(ids);
    isHeld = true;
    return adding;
  };
  const until = async (isTrue: () => boolean): Promise<void> => {
    while (!isTrue()) await new Promise((resolve) => setImmediate(resolve));
  };
  /** Adds pipelines and lets the call time out. */
  const addInVain = async (ids: readonly string[]): Promise<void> => {
    const failed = t.rejects(add(ids), { code: 'queue_unavailable' });
    await until(() => world.opens === ids.length);
    await clock.advance(10_000);
    await failed;
  };
  return { link, pipelines, world, add, addInVain, until };
}

t.test('opens each queue once, even if an earlier call has not waited for it', async (t) => {
  const { link, pipelines, world, add, addInVain } = await heldPipelines(t);
  await addInVain(['a', 'b']);
  const again = add(['a', 'b']);
  await link.redis.ping();
  world.release();
  await again;
  t.equal(world.opens, 2);
  t.same(pipelines.ids.sort(), ['a', 'b']);
  await pipelines.close();
});

t.test('a queue that opens after the end is closed', async (t) => {
  const { pipelines, world, addInVain, until } = await heldPipelines(t);
  await addInVain(['c']);
  await pipelines.close();
  world.release();
  await until(() => world.answers === 1);
  await new Promise((resolve) => setImmediate(resolve));
  t.same(pipelines.ids, []);
});
