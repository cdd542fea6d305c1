import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bullmqQueue } from '../../../../src/workers/bullmq/bullmq-queue.ts';
import {
  type ShardedQueue,
  shardedQueue,
  type ShardedQueueOptions,
} from '../../../../src/workers/bullmq/shards/sharded-queue.ts';
import { shardMap } from '../../../../src/workers/bullmq/shards/shards.ts';
import type { PublishJob } from '../../../../src/workers/queue/job.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';
import { newRunId } from '../../../../src/workers/queue/start-run.ts';
import { queueContract, runResult } from '../../../contract/queue.ts';
import { startRedis } from '../../../services/redis.ts';

t.setTimeout(0);

const servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
t.teardown(() => Promise.all(servers.map((server) => server.close())));

// By these names "maps" and "docs", whose limits the contract counts together, live on one Redis, and its
// other pipelines on all three.
const names = ['A10', 'B10', 'C10'];
const contractIds = ['maps', 'docs', 'a', 'b', 'c', 'd', 'e'];

let opened = 0;

/** The test's own time-out ends a vain wait. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await systemClock.sleep(10);
}

function open(
  t: Pick<Test, 'teardown'>,
  { shards = 3, ...settings }: Partial<ShardedQueueOptions> & { shards?: number } = {},
): Promise<ShardedQueue> {
  const urls = new Map(names.slice(0, shards).map((name, index) => [name, servers[index]!.url]));
  return shardedQueue({
    clock: systemClock,
    log: silentLog,
    pipelineIds: contractIds,
    queueSize: 100,
    maxConcurrency: 10,
    retentionMs: 60_000,
    workerTimeoutMs: 5_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
    redis: { urls, prefix: `sharded-${opened}` },
    ...settings,
  }).then((queue) => {
    t.teardown(() => queue.close(0));
    return queue;
  });
}

t.test('the contract, over three Redis', async (t) => {
  queueContract(t, async (settings) => {
    opened += 1;
    const queue = await open({ teardown: () => undefined }, settings);
    return { queue, elapse: (ms) => systemClock.sleep(ms), waitingSurvives: true };
  });
});

async function submit(queue: ShardedQueue, pipelineId: string, key?: string): Promise<RunRecord> {
  const idempotency = key === undefined ? {} : { idempotency: { caller: 'ci', key } };
  const admission = await queue.reserve({ pipelineId, ...idempotency });
  const runId = newRunId(pipelineId, new Date());
  const answer = await admission.accept({ runId, pipelineId, staged: null }, digestOf(pipelineId));
  return answer.record;
}

const idsOf = ({ runs }: { runs: readonly RunRecord[] }): string[] => runs.map(({ run_id }) => run_id);

t.test('a list goes through all Redis by one link, and from any run on', async (t) => {
  opened += 1;
  const queue = await open(t);
  const accepted: string[] = [];
  for (let round = 0; round < 4; round += 1)
    for (const id of contractIds) {
      accepted.unshift((await submit(queue, id)).run_id);
      await systemClock.sleep(2);
    }
  const all: string[] = [];
  let before: string | null = null;
  do {
    const page: Awaited<ReturnType<ShardedQueue['list']>> = await queue.list(contractIds, {
      limit: 5,
      before,
    });
    all.push(...idsOf(page));
    before = page.next;
  } while (before !== null);
  t.same(all, accepted);
  t.same(idsOf(await queue.list(contractIds, { limit: 100, before: accepted[9] })), accepted.slice(10));
  t.same(
    idsOf(await queue.list(['maps', 'e'], { limit: 100 })),
    accepted.filter((id) => /^(maps|e)\./.test(id)),
  );
  await t.rejects(queue.list(contractIds, { limit: 5, before: 'maps.unknown' }), { code: 'run_not_found' });
  t.match(await queue.depth(), { queued: accepted.length });
});

t.test('follows every Redis, and resumes from a cursor on another host', async (t) => {
  opened += 1;
  const [queue, other] = [await open(t), await open(t)];
  const [watch, elsewhere] = [queue.watch(() => undefined), other.watch(() => undefined)];
  t.teardown(() => [watch, elsewhere].forEach((one) => one.close()));
  let cursor = await watch.cursor();
  const accepted: string[] = [];
  for (const id of contractIds) accepted.push((await submit(queue, id)).run_id);
  const heard = new Set<string>();
  for (const [index, one] of [watch, elsewhere, watch, elsewhere].entries())
    await until(async () => {
      const page = await one.after(cursor, { most: 2, wants: () => true });
      t.ok(page !== null && page.changes.length <= 2, 'no gap');
      for (const { record } of page?.changes ?? []) heard.add(record.run_id);
      cursor = page?.cursor ?? cursor;
      return heard.size >= Math.min(2 * (index + 1), accepted.length);
    });
  t.same([...heard].sort(), accepted.toSorted());
  t.equal(await watch.after('nonsense', { most: 1, wants: () => true }), null);
});

t.test('stops only the pipelines of an unreachable Redis, also at startup', async (t) => {
  opened += 1;
  const map = shardMap(names);
  const at = (shard: number): string => contractIds.find((id) => map.ownerOf(id) === shard) as string;
  const queue = await open(t);
  await queue.start(async () => runResult('ok'));
  const kept = await submit(queue, at(1));
  await until(async () => (await queue.find(kept.run_id))?.finished_at != null);
  await servers[1].stop('SIGKILL');
  t.teardown(() => servers[1].start().catch(() => undefined));
  const unavailable = { code: 'queue_unavailable' };
  for (const one of [queue, await open(t)]) {
    if (one !== queue) await one.start(async () => runResult('ok'));
    await until(async () => (await one.away()).length === 1);
    t.same(await one.away(), [names[1]]);
    for (const shard of [0, 2]) {
      const { run_id: id } = await submit(one, at(shard));
      await until(async () => (await one.find(id))?.status === 'succeeded');
      await one.pause(at(shard), null);
      t.ok((await one.pauses()).has(at(shard)));
      t.equal(await one.resume(at(shard)), true);
    }
    await t.rejects(submit(one, at(1)), unavailable);
    await t.rejects(one.find(kept.run_id), unavailable);
    await t.rejects(one.list(contractIds, { limit: 5 }), unavailable);
    t.equal((await one.list([at(0), at(2)], { limit: 5 })).runs.length > 0, true);
    const overview = await one.overview(contractIds);
    t.same(
      overview.map(({ isAway = false }) => isAway),
      contractIds.map((id) => map.ownerOf(id) === 1),
    );
    t.match(await one.depth(), { queued: 0 });
  }
  await servers[1].start();
  await until(async () => (await queue.away()).length === 0);
  t.match(await queue.find(kept.run_id), { status: 'succeeded' });
  const { run_id: again } = await submit(queue, at(1));
  await until(async () => (await queue.find(again))?.status === 'succeeded');
});

t.test(
  'processes that divide the pipelines otherwise keep each other out, until they are gone',
  async (t) => {
    opened += 1;
    const first = await open(t, { shards: 2 });
    const second = await open(t, { shards: 2 });
    await t.rejects(open(t, { shards: 3 }), {
      code: 'config_invalid',
      message:
        /another process that runs divides the pipelines among A10, B10, and this one among A10, B10, C10/,
      hint: /stop all of them/,
    });
    const prefix = `sharded-${opened}`;
    t.equal(
      await servers[0].cli('ZCARD', `${prefix}:processes`),
      '2',
      'the one that is refused leaves nothing',
    );
    await first.close(0);
    await second.close(0);
    t.equal(await servers[0].cli('ZCARD', `${prefix}:processes`), '0');
    // A process that was killed has left its entry, which ends by itself.
    const [seconds] = (await servers[0].cli('TIME')).split('\n');
    const killed = 'killed A10 B10';
    await servers[0].cli('ZADD', `${prefix}:processes`, `${Number(seconds) * 1000 + 3_000}`, killed);
    await open(t, { shards: 3 });
    const entries = async (): Promise<Map<string, number>> => {
      const words = await servers[0].cli('ZRANGE', `${prefix}:processes`, '0', '-1', 'WITHSCORES');
      return new Map([...words.matchAll(/(.+)\n(.+)/g)].map(([, name = '', ms]) => [name, Number(ms)]));
    };
    const [[live, expires] = ['none', 0]] = [...(await entries())].filter(([name]) => name !== killed);
    // The living process has renewed its entry, and the entry of the other one has expired.
    await until(async () => {
      const now = await entries();
      return !now.has(killed) && (now.get(live) ?? Infinity) > expires;
    });
    t.same([...(await entries()).keys()], [live], 'one that lives stays');
    const alone = {
      clock: systemClock,
      log: silentLog,
      pipelineIds: contractIds,
      queueSize: 1,
      maxConcurrency: 1,
    };
    const redis = { url: servers[0].url, urlEnv: 'A10', prefix };
    const times = { retentionMs: 60_000, workerTimeoutMs: 5_000 };
    const shared = { share: async (job: PublishJob) => job, remove: async () => undefined };
    await t.rejects(bullmqQueue({ ...alone, ...times, redis, shared, onExpire: async () => undefined }), {
      code: 'config_invalid',
      message: /and this one among this Redis alone/,
    });
  },
);

t.test('no Redis at all is no start', async (t) => {
  const urls = new Map([
    ['X', 'redis://127.0.0.1:1'],
    ['Y', 'redis://127.0.0.1:2'],
  ]);
  await t.rejects(open(t, { redis: { urls, prefix: 'none' } }), { code: 'queue_unavailable' });
});

t.test(
  'a Redis that is added takes over its pipelines, and what they have left elsewhere comes first',
  async (t) => {
    opened += 1;
    const [two, three] = [shardMap(names.slice(0, 2)), shardMap(names)];
    const moved = contractIds.find((id) => three.ownerOf(id) === 2) as string;
    const from = two.ownerOf(moved);
    const before = await open(t, { shards: 2 });
    const ended = await submit(before, moved, 'k0');
    await before.start(async () => runResult('ok'));
    await until(async () => (await before.find(ended.run_id))?.status === 'succeeded');
    const tick = { kind: 'schedule', tick: '2026-11-20T02:00:00.000Z', schedule: 's' } as const;
    const triggered = { runId: newRunId(moved, new Date()), pipelineId: moved, staged: null, trigger: tick };
    t.match(await before.triggers.decide(triggered), { outcome: 'started' });
    await until(async () => (await before.find(triggered.runId))?.status === 'succeeded');
    await before.pause(moved, 'for the move');
    const left = [await submit(before, moved, 'k1'), await submit(before, moved, 'k2')];
    await before.close(0);

    const queue = await open(t);
    const order: string[] = [];
    let running = 0;
    t.ok((await queue.pauses()).has(moved), 'a pause moves with its pipeline');
    const next = [await submit(queue, moved, 'k3'), await submit(queue, moved, 'k4')];
    await queue.start(async (job) => {
      running += 1;
      t.equal(running, 1, 'one at a time');
      order.push(job.runId);
      await systemClock.sleep(50);
      running -= 1;
      return runResult('ok');
    });
    await systemClock.sleep(1_500);
    t.same(order, [], 'while it is paused');
    t.match(await queue.overview([moved]), [{ waiting: 4, lastSuccess: { run_id: triggered.runId } }]);
    t.equal(await queue.resume(moved), true);
    const all = [...left, ...next].map(({ run_id }) => run_id);
    await until(async () => (await queue.find(all[3] as string))?.status === 'succeeded');
    t.same(order, all, 'in the order of acceptance, over both');
    t.same(idsOf(await queue.list([moved], { limit: 10 })), [
      ...all.toReversed(),
      triggered.runId,
      ended.run_id,
    ]);
    const again = await queue.reserve({ pipelineId: moved, idempotency: { caller: 'ci', key: 'k0' } });
    const replay = await again.accept(
      { runId: newRunId(moved, new Date()), pipelineId: moved, staged: null },
      digestOf(moved),
    );
    t.match(replay, { replayed: true, record: { run_id: ended.run_id } });
    t.match(await queue.triggers.last(moved, 'schedule'), tick);
    t.same(await queue.triggers.decide({ ...triggered, runId: newRunId(moved, new Date()) }), {
      outcome: 'known',
    });
    await t.rejects(queue.rerun(ended.run_id, newRunId(moved, new Date())), { code: 'bundle_gone' });
    t.match(await servers[2].cli('HGET', `sharded-${opened}:cleared`, moved), names[from]);
    t.match(await queue.rerun(all[3] as string, newRunId(moved, new Date())), { replayed: false });
  },
);
