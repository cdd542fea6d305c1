import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import type { Event } from '../../../../src/core/notify/event.ts';
import { bullmqEvents } from '../../../../src/workers/bullmq/bullmq-events.ts';
import { shardedEvents } from '../../../../src/workers/bullmq/shards/sharded-events.ts';
import { shardMap } from '../../../../src/workers/bullmq/shards/shards.ts';
import type { EventKeeping } from '../../../../src/workers/queue/event-keeping.ts';
import { idsOf, undeliveredContract } from '../../../contract/undelivered.ts';
import { startRedis } from '../../../services/redis.ts';

t.setTimeout(0);

const names = ['A', 'B', 'C'];
const servers = new Map(await Promise.all(names.map(async (name) => [name, await startRedis()] as const)));
t.teardown(() => Promise.all([...servers.values()].map((server) => server.close())));

let opened = 0;
async function openHost(t: Test, prefix = `events-${(opened += 1)}`) {
  const dropped: [string, number][] = [];
  const keeping = await shardedEvents({
    clock: systemClock,
    log: silentLog,
    names,
    open: (name) =>
      bullmqEvents({
        ...{ clock: systemClock, log: silentLog, prefix, urlEnv: name, hostLifeMs: 3_000 },
        url: servers.get(name)?.url ?? '',
        onDropped: (id, count) => void dropped.push([id, count]),
      }),
  });
  t.teardown(() => keeping.close());
  return { keeping, events: keeping.undelivered, dropped };
}

undeliveredContract(t, (t) => openHost(t));

/** An event of a run of the pipeline. */
const eventOf = (pipelineId: string, id: string): Event => ({
  id,
  timestamp: '2026-11-20T02:04:34.000Z',
  type: 'bundle.publish_failed',
  data: { pipeline_id: pipelineId, run_id: `${pipelineId}.20261120T020434Z.k3f9q2ab7x` } as never,
});

const map = shardMap(names);
const pipelineAt = (name: string): string =>
  Array.from({ length: 100 }, (_, index) => `p${index}`).find((id) => map.names[map.ownerOf(id)] === name) ??
  '';

async function kept(keeping: EventKeeping, event: Event): Promise<() => void> {
  return new Promise((resolve) =>
    keeping.outbox.keep({ event }, ['hook'], (_notifierId, ended) => resolve(() => ended())),
  );
}

t.test(
  'keeps an event on the Redis of its run, and does not delay others while one is unreachable',
  async (t) => {
    const { keeping } = await openHost(t, 'outbox');
    const fieldsAt = async (name: string): Promise<string> =>
      (await servers.get(name)?.cli('HKEYS', 'outbox:events')) ?? '';
    const ends: (() => void)[] = [];
    for (const name of names) {
      ends.push(await kept(keeping, eventOf(pipelineAt(name), `msg_${name}`)));
      t.equal(await fieldsAt(name), `hook msg_${name}`);
    }
    await servers.get('B')?.stop('SIGKILL');
    for (const name of ['A', 'C']) {
      await kept(keeping, eventOf(pipelineAt(name), `msg_${name}2`));
      await keeping.told(name);
      t.match(await fieldsAt(name), `hook msg_${name}2`);
    }
    await keeping.undelivered.keep('hook', {
      event: eventOf(pipelineAt('A'), 'msg_lost'),
      ...{ tries: 4, reason: 'away', givenUpAt: '2026-11-20T02:05:00.000Z' },
    });
    t.same(idsOf(await keeping.undelivered.list('hook')), ['msg_lost'], 'as far as is known');
    t.same([...(await keeping.undelivered.counts())], [['hook', 1]]);
    const late = kept(keeping, eventOf(pipelineAt('B'), 'msg_B2'));
    await servers.get('B')?.start();
    await late;
    t.match(await fieldsAt('B'), 'hook msg_B2');
    for (const end of ends) end();
    while ((await fieldsAt('B')).includes('msg_B\n') || (await fieldsAt('A')).includes('msg_A\n'))
      await systemClock.sleep(20);
    t.pass('delivered events are removed');
  },
);

t.test('what another host has left is taken from every Redis', async (t) => {
  const first = await openHost(t, 'left');
  for (const name of names) await kept(first.keeping, eventOf(pipelineAt(name), `msg_${name}`));
  await first.keeping.close();
  const { keeping } = await openHost(t, 'left');
  const taken = new Set<string>();
  keeping.outbox.open(({ event }) => taken.add(event.id));
  while (taken.size < names.length) await systemClock.sleep(20);
  t.same([...taken].sort(), ['msg_A', 'msg_B', 'msg_C']);
});
