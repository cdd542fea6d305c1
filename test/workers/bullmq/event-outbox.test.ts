import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { Event } from '../../../src/core/notify/event.ts';
import type { OnDeliveryEnd } from '../../../src/core/notify/outbox.ts';
import type { TraceContext } from '../../../src/core/tracing/trace-context.ts';
import { bullmqEvents } from '../../../src/workers/bullmq/bullmq-events.ts';
import { startRedis } from '../../services/redis.ts';

const redis = await startRedis();
const other = new Redis(redis.url);
other.on('error', () => undefined);
t.teardown(async () => {
  other.disconnect();
  await redis.close();
});
t.setTimeout(0);

interface Sent {
  notifierId: string;
  id: string;
  trace: TraceContext;
  ended: OnDeliveryEnd;
}

/** A host that delivers events, which are in `sent`. */
async function openHost(t: Test, prefix: string, hostLifeMs = 8_000) {
  let isDead = false;
  let bury: () => void = () => undefined;
  const buried = new Promise<void>((resolve) => (bury = resolve));
  // A killed process does nothing any more.
  const sleep: Clock['sleep'] = async (...given) => {
    await systemClock.sleep(...given);
    if (isDead) await buried;
  };
  const events = await bullmqEvents({
    clock: { ...systemClock, sleep },
    log: silentLog,
    url: redis.url,
    urlEnv: 'REDIS_URL',
    prefix,
    hostLifeMs,
    onDropped: () => undefined,
  });
  const sent: Sent[] = [];
  const waiting = new Set<() => void>();
  const take = (one: Sent): void => {
    sent.push(one);
    for (const look of waiting) look();
  };
  events.outbox.open(({ notifierId, event, onEnd, ...trace }) =>
    take({ notifierId, id: event.id, trace, ended: onEnd }),
  );
  t.teardown(() => {
    bury();
    return events.close();
  });
  return {
    ...events,
    sent,
    notify: (id: string, notifierIds: string[], runId: string | null = null, trace: TraceContext = {}) =>
      events.outbox.store({ event: eventOf(id, runId), ...trace }, notifierIds, (notifierId, ended) =>
        take({ notifierId, id, trace, ended }),
      ),
    until: (count: number) =>
      new Promise<void>((resolve) => {
        const look = (): void => {
          if (sent.length >= count) resolve();
        };
        waiting.add(look);
        look();
      }),
    die: () => void (isDead = true),
  };
}

function eventOf(id: string, runId: string | null): Event {
  const where = { pipeline_id: 'maps', destination_id: 'web', destination_path: '.', run_id: runId };
  const what = { bundle: null, reason: 'orphan' as const, counts: { outputs_removed: 0 } };
  return {
    id,
    timestamp: '2026-11-20T02:04:34.000Z',
    type: 'bundle.unpublished',
    data: { ...where, ...what, outputs: [], outputs_omitted: 0 },
  };
}

const listed = (sent: readonly Sent[]): string[] => sent.map(({ notifierId, id }) => `${notifierId} ${id}`);

t.test('another host delivers the events of a dead one, in order and in their trace', async (t) => {
  const [dead, alive] = [await openHost(t, 'dead'), await openHost(t, 'dead')];
  const trace = {
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'a=1',
  };
  dead.notify('msg_1', ['a', 'b'], null, trace);
  dead.notify('msg_3', ['b']);
  dead.notify('msg_2', ['b']);
  await dead.flushed();
  t.same(listed(dead.sent), ['a msg_1', 'b msg_1', 'b msg_3', 'b msg_2']);
  dead.sent[1]!.ended();
  while ((await other.hlen('dead:events')) > 3) await systemClock.sleep(20);
  t.same(alive.sent, [], 'no other worker takes them while it is alive');
  dead.die();
  await alive.until(3);
  t.same(listed(alive.sent), ['a msg_1', 'b msg_3', 'b msg_2']);
  t.same(alive.sent[0]!.trace, trace);
  for (const { ended } of alive.sent) ended();
  while ((await other.exists('dead:events')) > 0) await systemClock.sleep(20);
});

t.test('another host immediately delivers events left by a stopped one', async (t) => {
  const hosts = [await openHost(t, 'stops'), await openHost(t, 'stops'), await openHost(t, 'stops')];
  const [first, second, third] = hosts as [(typeof hosts)[0], (typeof hosts)[0], (typeof hosts)[0]];
  first.notify('msg_1', ['a']);
  first.notify('msg_2', ['a']);
  await first.flushed();
  first.sent[0]!.ended();
  await first.close();
  await Promise.race([second.until(1), third.until(1)]);
  t.same(listed([...second.sent, ...third.sent]), ['a msg_2']);
});

t.test('sends an event of a run once, also when another worker repeats the run', async (t) => {
  const [first, second] = [await openHost(t, 'again'), await openHost(t, 'again')];
  await other.hset('again:run:maps.1', 'record', '{}');
  first.notify('msg_1', ['a'], 'maps.1');
  await first.flushed();
  for (const id of ['msg_1', 'msg_2']) second.notify(id, ['a'], 'maps.1');
  await second.flushed();
  t.same(listed(first.sent), ['a msg_1']);
  t.same(listed(second.sent), ['a msg_2'], 'no other event is mistaken for it');
});

t.test('forgets a failed event only after it is stored as undelivered', async (t) => {
  const host = await openHost(t, 'kept');
  host.notify('msg_1', ['a']);
  await host.until(1);
  let keep: () => void = () => undefined;
  host.sent[0]!.ended(new Promise((resolve) => (keep = resolve)));
  await systemClock.sleep(100);
  t.equal(await other.hlen('kept:events'), 1);
  keep();
  while ((await other.hlen('kept:events')) > 0) await systemClock.sleep(20);
});

t.test('sends events when Redis is back, from the host that has them', async (t) => {
  const lifeMs = 8_000;
  const [first, second] = [await openHost(t, 'away', lifeMs), await openHost(t, 'away', lifeMs)];
  first.notify('msg_1', ['a']);
  await first.flushed();
  await redis.stop();
  first.notify('msg_2', ['a']);
  await systemClock.sleep(lifeMs + 1_000);
  t.equal(first.sent.length, 1, 'no event is sent that a kill would lose');
  // Not `once` of node:events, which would stop waiting after a refused connection attempt.
  const back = new Promise((resolve) => void other.once('ready', resolve));
  await redis.start();
  await Promise.all([back, first.flushed()]);
  t.same(listed(first.sent), ['a msg_1', 'a msg_2']);
  // All were silent for too long, and each has checked the others since.
  while ((await other.zcount('away:event-hosts', Date.now(), '+inf')) < 2) await systemClock.sleep(20);
  await systemClock.sleep(1_000);
  t.same(second.sent, []);
});
