import { Redis } from 'ioredis';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../src/core/lib/log.ts';
import { inParallel } from '../../../src/core/lib/parallel.ts';
import { bullmqEvents } from '../../../src/workers/bullmq/bullmq-events.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import type { PublishJob } from '../../../src/workers/queue/job.ts';
import type { JobProcessor } from '../../../src/workers/queue/job-queue.ts';
import type { DeliveryNote } from '../../../src/workers/queue/run-record.ts';
import type { TriggeredJob } from '../../../src/workers/queue/trigger.ts';
import { runResult } from '../../contract/queue.ts';
import { givenUp } from '../../contract/undelivered.ts';
import { startRedis } from '../../services/redis.ts';
import { type Case, drawn, isExhaustive } from '../../support/sampling.ts';

/**
 * Redis is not trusted. A host was killed in the middle of its work. Another program replaces one
 * value of Redis by something else, and the next host works with it.
 */

const server = await startRedis();
t.teardown(() => server.close());
const redis = new Redis(server.url);
t.teardown(() => redis.disconnect());
t.setTimeout(0);

/** The number of cases if the run is not exhaustive. */
const sampled = 36;
const hour = 3_600_000;
const lifeMs = 1_000;
const late = { baseMs: hour, capMs: hour, random: () => 0.5 };

/** A host, and the errors that it logged. */
async function open(prefix: string, workerTimeoutMs: number) {
  const wrong: string[] = [];
  const error = (fields: object, message: string): void => {
    if (!('err' in fields && fields.err instanceof WaybillError) && !('event' in fields))
      wrong.push(`${message}: ${'err' in fields ? String(fields.err) : ''}`);
  };
  const log: Log = { ...silentLog, error };
  const place = { url: server.url, urlEnv: 'REDIS_URL' };
  const queue = await BullmqQueue.open({
    clock: systemClock,
    log,
    redis: { ...place, prefix },
    pipelineIds: ['maps', 'docs'],
    workerTimeoutMs,
    queueSize: 100,
    maxConcurrency: 4,
    retentionMs: hour,
    retries: () => ({ forMs: hour, whileRetrying: 'pass', hasSingleTarget: false, pauses: late }),
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
  });
  const onDropped = (): void => undefined;
  const events = await bullmqEvents({
    ...place,
    prefix,
    clock: systemClock,
    log,
    hostLifeMs: lifeMs,
    onDropped,
  });
  return { queue, events, wrong };
}

async function submit(queue: BullmqQueue, runId: string, key?: string) {
  const [pipelineId = ''] = runId.split('.');
  const idempotency = key === undefined ? {} : { idempotency: { caller: 'a', key } };
  const admission = await queue.reserve({ pipelineId, ...idempotency });
  const archive = { name: 'upload-1.tar', size: 7, digest: digestOf('a') };
  const job: PublishJob = { runId, pipelineId, staged: '', bundlePath: runId, archive };
  return admission.accept(job, digestOf('{}'));
}

const tick = (runId: string, minute: number): TriggeredJob => {
  const at = new Date(Date.UTC(2026, 10, 20, 2, minute)).toISOString();
  return {
    runId,
    pipelineId: 'maps',
    staged: null,
    trigger: { kind: 'schedule', tick: at, schedule: '* * * * *' },
  };
};
const note: DeliveryNote = {
  ...{ notifierId: 'n', eventId: 'msg_1', eventType: 'ping', status: 'retrying', tries: 1, isMore: false },
  ...{ reason: 'away', nextTryAt: null, at: new Date(0) },
};

/** Leaves the state of a killed host: ended, waiting, running and retried runs, and events. */
async function prepare(prefix: string): Promise<() => Promise<void>> {
  const { queue, events } = await open(prefix, hour);
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const process: JobProcessor = async ({ runId }, { signal }) => {
    if (runId === 'maps.2') throw new WaybillError('storage_transient', 'away');
    if (runId === 'docs.1') {
      begin();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    }
    return runResult('ok');
  };
  await submit(queue, 'maps.1', 'used');
  await submit(queue, 'maps.2');
  await queue.start(process);
  await queue.untilFinished('maps.1', AbortSignal.timeout(10_000));
  while ((await queue.find('maps.2'))?.attempt !== 2) await systemClock.sleep(20);
  await submit(queue, 'docs.1');
  await begun;
  await submit(queue, 'docs.2');
  await queue.pause('idle', 'a reason');
  await queue.triggers.decide(tick('maps.3', 0));
  await queue.noteDelivery('maps.1', note);
  await queue.reserve({ pipelineId: 'maps', idempotency: { caller: 'a', key: 'staging' } });
  for (const id of ['msg_1', 'msg_2']) {
    await events.undelivered.store('n', givenUp(id, 1));
    events.outbox.store(givenUp(id, 1), ['n'], () => undefined);
  }
  const claim = await events.undelivered.claim('n');
  await events.flushed();
  return async () => {
    await claim.release();
    await Promise.all([queue.close(0), events.close()]);
  };
}

/** Copies the state, as if its host had been dead for some time. */
async function copy(keys: readonly string[], from: string, to: string): Promise<void> {
  const copies = redis.pipeline();
  for (const key of keys) if (!key.endsWith(':lock')) copies.copy(key, to + key.slice(from.length));
  copies.hset(`${to}:run:docs.1`, 'held', '1');
  for (const host of await redis.zrange(`${from}:event-hosts`, '0', '-1'))
    copies.zadd(`${to}:event-hosts`, 1, host);
  await copies.exec();
}

interface Damage {
  name: string;
  stratum: string;
  apply: (prefix: string) => Promise<unknown>;
}
const values = ['nonsense', '[]', 'null', '{}', '', '1e400', `${'['.repeat(2_000)}${']'.repeat(2_000)}`];
const members = ['nonsense', 'a:b', 'wait', ''];

/** Every value of Redis with all its replacements. BullMQ's keys: `untrusted-tickets.test.ts`. */
async function damagesOf(keys: readonly string[], from: string): Promise<Damage[]> {
  const damages: Damage[] = [];
  for (const key of keys.filter((one) => !one.includes(':queue:'))) {
    const name = key.slice(from.length + 1);
    const at = (prefix: string): string => `${prefix}:${name}`;
    const add = (stratum: string, what: string, apply: Damage['apply']): void =>
      void damages.push({
        name: `${name}: ${stratum} = ${what.slice(0, 20)}`,
        stratum: `${name} ${stratum}`,
        apply,
      });
    const type = await redis.type(key);
    if (type === 'hash')
      for (const field of await redis.hkeys(key)) {
        for (const value of values) add(field, value, (to) => redis.hset(at(to), field, value));
        add(field, 'missing', (to) => redis.hdel(at(to), field));
      }
    if (type === 'string') for (const value of values) add('', value, (to) => redis.set(at(to), value));
    if (type === 'list') for (const value of values) add('', value, (to) => redis.lpush(at(to), value));
    if (type === 'set') for (const one of members) add('', one, (to) => redis.sadd(at(to), one));
    if (type === 'zset') for (const one of members) add('', one, (to) => redis.zadd(at(to), 0, one));
    if (name.startsWith('run:'))
      add('whole', 'a text', (to) => redis.multi().del(at(to)).set(at(to), 'nonsense').exec());
  }
  return damages;
}

/** The errors if a host takes over a damaged state. */
async function problemsOf({ apply }: Damage, prefix: string): Promise<string[]> {
  await apply(prefix);
  const { queue, events, wrong } = await open(prefix, lifeMs);
  const problems: string[] = [];
  const call = async (what: string, work: () => Promise<unknown>, mayRefuse = false): Promise<void> => {
    await work().catch((error: unknown) => {
      if (!mayRefuse || !(error instanceof WaybillError)) problems.push(`${what}: ${String(error)}`);
    });
  };
  const sent: string[] = [];
  events.outbox.open(({ event, onEnd }) => {
    sent.push(event.id);
    onEnd();
  });
  const watch = queue.watch(() => undefined);
  await queue.start(async () => runResult('ok'));
  const runs = ['maps.1', 'maps.2', 'docs.1', 'docs.2'];
  const ended = async (runId: string): Promise<void> => {
    await submit(queue, runId);
    await queue.untilFinished(runId, AbortSignal.timeout(15_000));
    const record = await queue.find(runId);
    if (record?.status !== 'succeeded') throw new Error(`${runId} is ${record?.status}`);
  };
  await call('list', () => queue.list(['maps', 'docs'], { limit: 2 }));
  await call('filter', () => queue.list(['maps', 'docs'], { limit: 10, status: 'failed' }));
  await call('page', () => queue.list(['maps'], { limit: 10, before: 'maps.2' }), true);
  await call('overview', () => queue.overview(['maps', 'docs']));
  await call('waiting', () => queue.waitingSince(['maps', 'docs']));
  await call('depth', () => Promise.all([queue.depth(), queue.bundleUsage(), queue.pauses()]));
  await call('changes', async () => watch.after(await watch.cursor(), { limit: 10, wants: () => true }));
  await call('trigger', () => queue.triggers.last('maps', 'schedule'));
  await call('undelivered', () => Promise.all([events.undelivered.list('n'), events.undelivered.counts()]));
  await Promise.all([call('maps', () => ended('maps.7')), call('docs', () => ended('docs.7'))]);
  for (const id of runs) await call(`find ${id}`, () => queue.find(id));
  await call('note', () => queue.noteDelivery('maps.1', note), true);
  await call('pause', () => queue.pause('idle', null));
  await call('same key', () => submit(queue, 'maps.8', 'used'), true);
  await call('staging key', () => submit(queue, 'maps.9', 'staging'), true);
  for (const id of runs) await call(`rerun ${id}`, () => queue.rerun(id, `${id}a`), true);
  await call('retry', () => queue.retryNow('maps.2'), true);
  for (const id of runs) await call(`cancel ${id}`, () => queue.cancel(id), true);
  await call('tick', () => queue.triggers.decide(tick('maps.10', 1)));
  await call('keep', () => events.undelivered.store('n', givenUp('msg_3', 1)));
  await call('events', async () => {
    const end = Date.now() + 15_000;
    while (sent.length === 0 && Date.now() < end) await systemClock.sleep(20);
    if (sent.length === 0) throw new Error('no event of the dead host was delivered');
  });
  watch.close();
  await Promise.all([queue.close(5_000), events.close()]);
  return [...problems, ...wrong];
}

t.test('no value in Redis stops a pipeline, or makes a call fail without a cause', async (t) => {
  const from = 'killed';
  const kill = await prepare(from);
  const keys = await redis.keys(`${from}:*`);
  const damages = await damagesOf(keys, from);
  t.ok(damages.length > 300, `${damages.length} damages`);
  const cases = damages.map((damage, index): Case => {
    const prefix = `case-${index}`;
    return {
      ...damage,
      run: async () => {
        await copy(keys, from, prefix);
        return problemsOf(damage, prefix);
      },
    };
  });
  const chosen = isExhaustive ? cases : drawn(cases, 'damages').slice(0, sampled);
  const failures: string[] = [];
  await inParallel(chosen, 6, async ({ name, run }) => {
    const problems = await run();
    if (problems.length > 0) failures.push(`${name}: ${problems.join('; ')}`);
  });
  t.same(failures, []);
  t.comment(`report: ${chosen.length} of ${cases.length} damages`);
  await kill();
});

t.test("ignores messages of other programs on waybill's channels", async (t) => {
  const prefix = 'channels';
  const { queue, events, wrong } = await open(prefix, hour);
  const watch = queue.watch(() => undefined);
  await queue.start(async () => runResult('ok'));
  await submit(queue, 'maps.1');
  await queue.untilFinished('maps.1', AbortSignal.timeout(15_000));
  const cursor = await watch.cursor();
  const next = Number(await redis.get(`${prefix}:revision`)) + 1;
  for (const text of ['', 'nonsense', '[]', `${next} nonsense`, `${next} {}`, `${next} null`, '1e400 {}'])
    for (const channel of ['changes', 'wake', 'cancel']) await redis.publish(`${prefix}:${channel}`, text);
  await submit(queue, 'maps.2');
  await queue.untilFinished('maps.2', AbortSignal.timeout(15_000));
  const page = await watch.after(cursor, { limit: 100, wants: () => true });
  t.match(page?.changes.at(-1)?.record, { run_id: 'maps.2' });
  t.same(wrong, []);
  watch.close();
  await Promise.all([queue.close(5_000), events.close()]);
});
