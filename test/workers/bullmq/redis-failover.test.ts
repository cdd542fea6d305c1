import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { PublishJob } from '../../../src/workers/queue/job.ts';
import { runResult } from '../../contract/queue.ts';
import { startRedisCluster, startWatchedRedis } from '../../services/redis-groups.ts';
import { isExhaustive } from '../../support/sampling.ts';
import { insist, openHost, submit, surviveFailover } from './failover.ts';

t.setTimeout(0);

const size = isExhaustive ? { uploads: 600, pipelines: 60 } : { uploads: 60, pipelines: 12 };

const never = new AbortController().signal;
const watched = await startWatchedRedis();
t.teardown(() => watched.close());
const server = { url: 'redis://unused', urlEnv: 'REDIS_URL', sentinels: watched.settings };

t.test('refuses an upload that no replica confirms, but only for a minute', async (t) => {
  const redis = { ...server, prefix: 'unconfirmed' };
  const staged = new Set<string>();
  const shared = {
    share: async (job: PublishJob, name: string): Promise<PublishJob> => {
      staged.add(name);
      return job.staged === null ? job : { ...job, archive: { name, size: 1, digest: digestOf('') } };
    },
    remove: async (name: string) => void staged.delete(name),
  };
  const upload = (runId: string): PublishJob => ({
    runId,
    pipelineId: 'maps',
    staged: '',
    bundlePath: runId,
  });
  let aheadMs = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };
  const api = await openHost(t, { redis, pipelineIds: ['maps'], shared, clock });
  const begun: string[] = [];
  await api.start(async ({ runId }) => {
    begun.push(runId);
    return runResult('ok');
  });
  await insist(() => submit(api, upload('maps.1')));
  await api.untilFinished('maps.1', never);
  staged.clear();
  await Promise.all(watched.replicas.map((one) => one.stop('SIGKILL')));
  await t.rejects(submit(api, upload('maps.2')), { code: 'queue_unavailable', message: /no replica/ });
  t.equal(await api.find('maps.2'), undefined);
  t.match(await api.depth(), { reserved: 0, queued: 0 });
  while (staged.size > 0) await systemClock.sleep(50);
  aheadMs += 60_000;
  await submit(api, upload('maps.3'), 'maps.2');
  await Promise.all(watched.replicas.map((one) => one.start()));
  await api.untilFinished('maps.3', never);
  t.same(begun, ['maps.1', 'maps.3']);
});

t.test('every accepted run survives a primary that Sentinels replace', async (t) => {
  await surviveFailover(t, {
    ...size,
    redis: { ...server, prefix: 'waybill' },
    steps: [() => watched.primary.stop('SIGKILL')],
  });
});

if (isExhaustive)
  t.test('every accepted run survives moved slots and a killed primary of a Cluster', async (t) => {
    const cluster = await startRedisCluster({ replicas: 1 });
    t.teardown(() => cluster.close());
    await surviveFailover(t, {
      ...size,
      redis: { url: cluster.url, urlEnv: 'REDIS_URL', isCluster: true, prefix: 'waybill' },
      steps: [
        () => cluster.move('{waybill}:', () => systemClock.sleep(500)),
        () => cluster.move('{waybill:p1}:', () => systemClock.sleep(500)),
        async () => {
          const node = await cluster.ownerOf('{waybill}:');
          await node.stop('SIGKILL');
          await systemClock.sleep(5_000);
          await node.start();
        },
      ],
    });
  });
