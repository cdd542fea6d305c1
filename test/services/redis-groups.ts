import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import { type RedisService, startRedis } from './redis.ts';
import { cleanUpAtExit, endService, spawnService } from './service-process.ts';

const primaryName = 'waybill';

export interface WatchedRedis {
  primary: RedisService;
  replicas: readonly RedisService[];
  /** The value of `redis_sentinels`. */
  settings: { master: string; hosts: { host: string; port: number }[] };
  close(): Promise<void>;
}

/** A primary, two replicas and three Sentinels, which replace a silent primary after a second. */
export async function startWatchedRedis(): Promise<WatchedRedis> {
  const primary = await startRedis();
  const replicaOf = ['--replicaof', '127.0.0.1', String(primary.port)];
  const replicas = await Promise.all([1, 2].map(() => startRedis({ args: replicaOf })));
  const directory = await mkdtemp(path.join(tmpdir(), 'waybill-sentinels-'));
  const sentinels = await Promise.all(
    [1, 2, 3].map(async () => {
      const port = await freePort();
      const file = path.join(directory, `${port}.conf`);
      await writeFile(
        file,
        [
          `port ${port}`,
          'bind 127.0.0.1',
          `dir ${directory}`,
          `sentinel monitor ${primaryName} 127.0.0.1 ${primary.port} 2`,
          `sentinel down-after-milliseconds ${primaryName} 1000`,
          `sentinel failover-timeout ${primaryName} 5000`,
        ].join('\n'),
      );
      return { port, child: spawnService('redis-server', [file, '--sentinel'], { stdio: 'ignore' }) };
    }),
  );
  const revoke = cleanUpAtExit(directory, () => sentinels.map(({ child }) => child));
  const close = async (): Promise<void> => {
    revoke();
    await Promise.all(sentinels.map(({ child }) => endService(child)));
    await Promise.all([primary, ...replicas].map((one) => one.close()));
    await rm(directory, { recursive: true, force: true });
  };
  while (!(await primary.cli('info', 'replication')).includes('connected_slaves:2')) await sleep(50);
  // A Sentinel discovers the others and the replicas itself.
  for (const { port } of sentinels)
    for (;;) {
      const facts = await primary.cli('-p', String(port), 'info', 'sentinel').catch(() => '');
      if (facts.includes('slaves=2,sentinels=3')) break;
      await sleep(50);
    }
  const hosts = sentinels.map(({ port }) => ({ host: '127.0.0.1', port }));
  return { primary, replicas, settings: { master: primaryName, hosts }, close };
}

export interface RedisCluster {
  nodes: readonly RedisService[];
  /** The URL of one node. */
  url: string;
  /** The node with the slot of the key. */
  ownerOf(key: string): Promise<RedisService>;
  /** Moves the slot of the key to another primary. Calls `halfway` after a few keys. */
  move(key: string, halfway?: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** A Cluster of three primaries, each with this many replicas. */
export async function startRedisCluster({ replicas }: { replicas: number }): Promise<RedisCluster> {
  const nodes = await Promise.all(
    Array.from({ length: 3 * (1 + replicas) }, async () => {
      const busPort = await freePort();
      const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
      return { busPort, redis: await startRedis({ args: [...args, '--cluster-port', String(busPort)] }) };
    }),
  );
  const [{ redis: first } = { redis: null }] = nodes;
  if (first === null) throw new TypeError('a Cluster has nodes');
  const addresses = nodes.map(({ redis: { port }, busPort }) => `127.0.0.1:${port}@${busPort}`);
  await first.cli(
    '--cluster',
    'create',
    ...addresses,
    '--cluster-replicas',
    String(replicas),
    '--cluster-yes',
  );
  const all = nodes.map(({ redis }) => redis);
  for (const one of all)
    for (;;) {
      const facts = await one.cli('cluster', 'info');
      if (facts.includes('cluster_state:ok') && facts.includes(`cluster_known_nodes:${all.length}`)) break;
      await sleep(50);
    }
  // Before its first synchronization, a replica cannot replace its primary.
  for (const one of all)
    while ((await one.cli('info', 'replication')).includes('master_link_status:down')) await sleep(50);
  const ownerOf = async (key: string): Promise<RedisService> => {
    const slot = Number(await first.cli('cluster', 'keyslot', key));
    for (;;) {
      const owner = await ownerOfSlot(all, slot);
      if (owner !== undefined) return owner;
      await sleep(100);
    }
  };
  return {
    nodes: all,
    url: first.url,
    ownerOf,
    move: async (key, halfway = async () => undefined) => {
      const slot = await first.cli('cluster', 'keyslot', key);
      const from = await ownerOf(key);
      const others = await primariesOf(all);
      const to = others.find((one) => one !== from);
      if (to === undefined) throw new TypeError('there is no other primary');
      const [source, target] = [await from.cli('cluster', 'myid'), await to.cli('cluster', 'myid')];
      await to.cli('cluster', 'setslot', slot, 'importing', source);
      await from.cli('cluster', 'setslot', slot, 'migrating', target);
      let isHalfway = false;
      for (;;) {
        const limit = isHalfway ? '1000' : '10';
        const keys = (await from.cli('cluster', 'getkeysinslot', slot, limit)).split('\n').filter(Boolean);
        if (keys.length === 0) break;
        await from.cli('migrate', '127.0.0.1', String(to.port), '', '0', '5000', 'keys', ...keys);
        if (!isHalfway) await halfway();
        isHalfway = true;
      }
      for (const one of [to, from, ...others.filter((other) => other !== to && other !== from)])
        await one.cli('cluster', 'setslot', slot, 'node', target);
    },
    close: async () => {
      await Promise.all(all.map((one) => one.close()));
    },
  };
}

async function primariesOf(nodes: readonly RedisService[]): Promise<RedisService[]> {
  const roles = await Promise.all(nodes.map((one) => one.cli('role').catch(() => '')));
  return nodes.filter((_, index) => roles[index]?.startsWith('master'));
}

async function ownerOfSlot(nodes: readonly RedisService[], slot: number): Promise<RedisService | undefined> {
  for (const one of await primariesOf(nodes)) {
    const lines = (await one.cli('cluster', 'nodes')).split('\n');
    const own = lines.find((line) => line.includes('myself')) ?? '';
    const ranges = own.split(' ').slice(8);
    const owns = ranges.some((range) => {
      const [from = NaN, to = from] = range.split('-').map(Number);
      return from <= slot && slot <= to;
    });
    if (owns) return one;
  }
  return undefined;
}
