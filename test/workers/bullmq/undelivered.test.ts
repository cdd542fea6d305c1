import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { bullmqEvents } from '../../../src/workers/bullmq/bullmq-events.ts';
import { givenUp, idsOf, undeliveredContract } from '../../contract/undelivered.ts';
import { startRedis } from '../../services/redis.ts';

const redis = await startRedis();
t.teardown(() => redis.close());

let prefixes = 0;
async function openHost(t: Test, prefix: string) {
  const dropped: [string, number][] = [];
  const onDropped = (id: string, count: number): void => void dropped.push([id, count]);
  const host = await bullmqEvents({
    clock: systemClock,
    log: silentLog,
    url: redis.url,
    urlEnv: 'REDIS_URL',
    prefix,
    hostLifeMs: 15_000,
    onDropped,
  });
  t.teardown(() => host.close());
  return { ...host, events: host.undelivered, dropped };
}

undeliveredContract(t, (t) => openHost(t, `waybill-${(prefixes += 1)}`));

t.test('every host sees undelivered events of another, and one of them redelivers', async (t) => {
  const [worker, api] = [await openHost(t, 'hosts'), await openHost(t, 'hosts')];
  await worker.events.store('n', givenUp('msg_1', 1));
  await api.events.store('n', givenUp('msg_2', 2));
  t.same(idsOf(await api.events.list('n')), ['msg_1', 'msg_2']);
  t.same([...(await worker.events.counts())], [['n', 2]]);
  const claim = await worker.events.claim('n');
  await t.rejects(api.events.claim('n'), { code: 'redelivery_running' });
  await claim.release();
  await (await api.events.claim('n')).release();
});

t.test('stores undelivered events once Redis is back', async (t) => {
  const { events } = await openHost(t, 'away');
  await events.store('n', givenUp('msg_1', 1));
  await redis.stop();
  const keeping = [events.store('n', givenUp('msg_2', 2)), events.store('n', givenUp('msg_3', 3))];
  await t.rejects(events.list('n'), { code: 'queue_unavailable' });
  await redis.start();
  await Promise.all(keeping);
  t.same(idsOf(await events.list('n')), ['msg_1', 'msg_2', 'msg_3']);
});
