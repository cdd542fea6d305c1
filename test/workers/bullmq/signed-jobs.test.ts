import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import { jobSeal, signingKeys } from '../../../src/workers/bullmq/job-seal.ts';
import type { PublishJob } from '../../../src/workers/queue/job.ts';
import { runResult } from '../../contract/queue.ts';
import { startRedis } from '../../services/redis.ts';

/** Security finding 10: another program edits, replaces, strips or repeats jobs in Redis. */

const server = await startRedis();
t.teardown(() => server.close());
const redis = new Redis(server.url);
t.teardown(() => redis.disconnect());

const oldKey = 'an old key of more than 32 characters';
const newKey = 'a new key of more than 32 characters!';
const never = new AbortController().signal;

interface Host {
  queue: BullmqQueue;
  /** Bundle paths of the runs that were executed. */
  published: string[];
  start(): Promise<void>;
}

async function open(t: Test, prefix: string, keys: readonly string[]): Promise<Host> {
  const queue = await BullmqQueue.open({
    clock: systemClock,
    log: silentLog,
    redis: { url: server.url, urlEnv: 'REDIS_URL', prefix },
    pipelineIds: ['maps'],
    workerTimeoutMs: 5_000,
    queueSize: 100,
    maxConcurrency: 2,
    retentionMs: 60_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
    seal: jobSeal(keys),
  });
  t.teardown(() => queue.close(0));
  const published: string[] = [];
  const process = async (job: PublishJob): Promise<ReturnType<typeof runResult>> => {
    published.push(job.staged === null ? job.runId : job.bundlePath);
    return runResult('ok');
  };
  return { queue, published, start: () => queue.start(process) };
}

async function submit({ queue }: Pick<Host, 'queue'>, runId: string, bundlePath = runId): Promise<void> {
  const admission = await queue.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId, pipelineId: 'maps', staged: '/staged', bundlePath }, digestOf('{}'));
}

const changes: Record<string, (text: string, other: string) => string> = {
  edited: (text) => text.replace('"bundlePath":"honest"', '"bundlePath":"victim"'),
  'replaced by the job of another run': (_text, other) => other,
  stripped: (text) => text.replace(/,"mac":"[0-9a-f]+"/, ''),
  'edited with its signature moved': (text) =>
    text.replace(/^(\{.*)(,"mac":"[0-9a-f]+")\}$/, '$1$2,"bundlePath":"victim"}'),
  'no JSON at all': () => 'nonsense',
};

for (const [index, [what, change]] of Object.entries(changes).entries()) {
  t.test(`a job that was ${what} is not executed`, async (t) => {
    const prefix = `changed-${index}`;
    const host = await open(t, prefix, [newKey]);
    await submit(host, 'maps.1', 'honest');
    await submit(host, 'maps.2', 'other');
    const [text, other] = await Promise.all(
      ['maps.1', 'maps.2'].map(async (id) => (await redis.hget(`${prefix}:run:${id}`, 'job')) ?? ''),
    );
    const changed = change(text ?? '', other ?? '');
    t.not(changed, text);
    await redis.hset(`${prefix}:run:maps.1`, 'job', changed);
    await host.start();
    await Promise.all(['maps.1', 'maps.2'].map((id) => host.queue.untilFinished(id, never)));
    t.match(await host.queue.find('maps.1'), {
      ...{ run_id: 'maps.1', status: 'failed', rerunnable: false },
      error: { code: 'job_rejected', hint: /signing_key_envs/, retryable: false },
    });
    t.match(await host.queue.find('maps.2'), { status: 'succeeded' });
    t.same(host.published, ['other']);
    await t.rejects(host.queue.rerun('maps.1', 'maps.3'), { code: /job_rejected|bundle_gone/ });
  });
}

t.test('a finished run is not executed again, whatever Redis contains', async (t) => {
  const prefix = 'replayed';
  const host = await open(t, prefix, [newKey]);
  await submit(host, 'maps.1');
  const waiting = await redis.hgetall(`${prefix}:run:maps.1`);
  await host.start();
  await host.queue.untilFinished('maps.1', never);
  const tickets = new Queue('maps', { connection: redis, prefix: `${prefix}:queue` });
  t.teardown(() => tickets.close());
  // First only the ticket, then also the run, as it was before it began.
  for (const [index, run] of [{}, waiting].entries()) {
    if ('job' in run) {
      await redis.del(`${prefix}:run:maps.1`);
      await redis.hset(`${prefix}:run:maps.1`, run);
    }
    await tickets.remove('maps.1');
    await tickets.add('run', { run_id: 'maps.1' }, { jobId: 'maps.1' });
    // Hosts take this ticket before the ticket of the next run.
    const next = `maps.${index + 2}`;
    await submit(host, next);
    await host.queue.untilFinished(next, never);
    t.match(await host.queue.find('maps.1'), { status: 'succeeded' });
    t.equal(host.published.filter((id) => id === 'maps.1').length, 1);
    t.not(await tickets.getJobState('maps.1'), 'waiting', 'the ticket is gone');
  }
});

t.test('a record that another program replaced is omitted, and the others are listed', async (t) => {
  const prefix = 'records';
  const { queue } = await open(t, prefix, []);
  for (const id of ['maps.1', 'maps.2', 'maps.3']) await submit({ queue }, id);
  const listed = async (): Promise<string[]> =>
    (await queue.list(['maps'], { limit: 10 })).runs.map((run) => run.run_id);
  t.same(await listed(), ['maps.3', 'maps.2', 'maps.1']);
  for (const text of ['nonsense', '[]', '{}', 'null', '']) {
    await redis.hset(`${prefix}:run:maps.2`, 'record', text);
    t.same(await listed(), ['maps.3', 'maps.1'], text);
    t.equal(await queue.find('maps.2'), undefined, text);
    t.match(await queue.overview(['maps']), [{ waiting: 3 }], text);
  }
});

t.test('a pause or a last success that another program replaced breaks no list', async (t) => {
  const prefix = 'values';
  const { queue } = await open(t, prefix, []);
  await queue.pause('maps', 'repairs');
  for (const text of ['nonsense', '[]', '{}', 'null', '5', '']) {
    await redis.hset(`${prefix}:paused`, 'maps', text);
    await redis.hset(`${prefix}:succeeded`, 'maps', text);
    t.match((await queue.pauses()).get('maps'), { reason: /overwritten.*resume the pipeline/ }, text);
    t.match(await queue.overview(['maps']), [{ lastSuccess: null }], text);
  }
  t.equal(await queue.resume('maps'), true);
  t.equal((await queue.pauses()).size, 0);
});

t.test('keys are rotated without downtime; a host with another key rejects jobs', async (t) => {
  const before = await open(t, 'rotated', [oldKey]);
  await submit(before, 'maps.1');
  const after = await open(t, 'rotated', [newKey, oldKey]);
  await submit(after, 'maps.2');
  await after.start();
  for (const id of ['maps.1', 'maps.2']) {
    await after.queue.untilFinished(id, never);
    t.match(await after.queue.find(id), { status: 'succeeded' });
  }
  await after.queue.close(1_000);
  await submit(before, 'maps.3');
  const without = await open(t, 'rotated', [newKey]);
  await without.start();
  await without.queue.untilFinished('maps.3', never);
  t.match(await without.queue.find('maps.3'), { error: { code: 'job_rejected' } });
});

t.test('a key that another program replaced makes the queue unavailable, and names the cause', async (t) => {
  const prefix = 'replaced';
  const { queue } = await open(t, prefix, []);
  await submit({ queue }, 'maps.1');
  const key = `${prefix}:runs:maps`;
  await redis.rename(key, 'aside');
  await redis.set(key, 'nonsense');
  await t.rejects(queue.list(['maps'], { limit: 10 }), {
    code: 'queue_unavailable',
    message: /another type/,
    hint: /redis-cli/,
  });
  await redis.rename('aside', key);
  t.match((await queue.list(['maps'], { limit: 10 })).runs, [{ run_id: 'maps.1' }]);
});

t.test('keys have a minimum length', async (t) => {
  const secrets = { require: (name: string) => (name === 'SHORT' ? 'short' : oldKey) };
  t.same(signingKeys(['LONG'], secrets), [oldKey]);
  t.throws(() => signingKeys(['LONG', 'SHORT'], secrets), {
    code: 'secrets_invalid',
    message: 'the value of SHORT has fewer than 32 characters',
  });
});

t.test('without keys, jobs are unsigned', async (t) => {
  const job = { runId: 'maps.1', pipelineId: 'maps', staged: null } as const;
  t.equal(jobSeal().seal(job), JSON.stringify(job));
  t.same(jobSeal().open(jobSeal([newKey]).seal(job)), job, 'also jobs of a host with keys');
});
