import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import t from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { startRedis } from '../services/redis.ts';
import { forward } from './forward.ts';
import { startNetwork } from './network.ts';
import {
  acceptedId,
  bundle,
  follow,
  killInRun,
  launchApi,
  launchWorker,
  layOut,
  overlaps,
  upload,
} from './processes.ts';

/**
 * Two hosts with separate networks: the API on the first, a worker on each, and Redis and S3 staging on a
 * third. There are a hundred uploads, and one worker is killed during them.
 */
t.test(
  'two hosts: a hundred uploads succeed, serially in each pipeline, even if a worker is killed',
  async (t) => {
    const network = await startNetwork(t, ['a', 'b']);
    const [a, b] = network.hosts as [(typeof network.hosts)[0], (typeof network.hosts)[0]];
    const redis = await startRedis({ host: network.address, password: 'a-password' });
    t.teardown(() => redis.close());
    const s3 = await startRadosgw(t);
    const bucket = await s3.newBucket();
    const port = await forward(t, network.address, s3.port);
    const place = layOut(t, {
      redisUrl: redis.url,
      pipelines: 10,
      staging: `{backend: s3, bucket: ${bucket}, prefix: staged/, endpoint: 'http://${network.address}:${port}', region: us-east-1, access_key_id_env: S3_KEY, secret_access_key_env: S3_SECRET}`,
      env: { S3_KEY: s3.user.accessKeyId, S3_SECRET: s3.user.secretAccessKey },
      listen: a.address,
    });
    const api = await launchApi(t, place, ['serve', '--no-workers'], a.through);
    const [doomed, other] = await Promise.all([
      launchWorker(t, place, b.through),
      launchWorker(t, place, a.through),
    ]);
    const names = Array.from({ length: 100 }, (_, index) => `b${String(index).padStart(3, '0')}`);
    const pipelineOf = (index: number): string => place.pipelines[index % 10] as string;
    const killed = killInRun(doomed, api.url, 15);
    const ids: string[] = [];
    for (const [index, name] of names.entries())
      ids.push(await acceptedId(await upload(api.url, pipelineOf(index), bundle(name))));
    const interrupted = await killed;
    const records = await Promise.all(ids.map((id) => follow(api.url, id)));
    t.same(
      records.filter(({ status }) => status !== 'succeeded'),
      [],
      'all succeeded',
    );
    for (const id of interrupted)
      t.ok(
        other.lines.some(({ msg, run_id }) => msg === 'run started' && run_id === id),
        `${id} was taken over by the other host`,
      );
    t.same(await overlaps([doomed, other], api.url), [], 'strictly one at a time in each pipeline');
    for (const [index, name] of names.entries())
      t.equal(
        readFileSync(path.join(place.root, 'public', pipelineOf(index), name, 'name.txt'), 'utf8'),
        name,
      );
    const listing = await s3.client().send(new ListObjectsV2Command({ Bucket: bucket }));
    t.equal(
      listing.Contents?.filter(({ Key }) => /^staged\/upload-[0-9a-f-]{36}\.tar$/.test(Key ?? '')).length,
      100,
      'each retained run has its archive in the bucket',
    );
    t.equal(listing.KeyCount, 100, 'and nothing else is there');
    t.comment(
      `100 uploads, ${interrupted.length} interrupted by the kill, ${other.lines.filter(({ msg }) => msg === 'run started').length} run by the surviving host`,
    );
  },
);

t.test(
  'another host takes over the run of a host disconnected from Redis, and every run is recorded once',
  async (t) => {
    const network = await startNetwork(t, ['c', 'd']);
    const [c, d] = network.hosts as [(typeof network.hosts)[0], (typeof network.hosts)[0]];
    const redis = await startRedis({ host: network.address, password: 'a-password' });
    t.teardown(() => redis.close());
    const place = layOut(t, { redisUrl: redis.url, pipelines: 4, listen: c.address });
    const api = await launchApi(t, place, ['serve', '--no-workers'], c.through);
    const cut = await launchWorker(t, place, d.through);
    const ids: string[] = [];
    for (let index = 0; index < 12; index += 1)
      ids.push(
        await acceptedId(
          await upload(api.url, place.pipelines[index % 4] as string, bundle(`b${index}`, 2_000_000)),
        ),
      );
    await cut.until(({ msg }) => msg === 'run started');
    await d.unplug();
    await launchWorker(t, place, c.through);
    for (const id of ids) t.match(await follow(api.url, id), { status: 'succeeded' });
    await d.plug();
    await cut.until(({ msg }) => msg === 'redis is back');
    const again = await acceptedId(await upload(api.url, 'p1', bundle('again')));
    t.match(await follow(api.url, again), { status: 'succeeded' });
  },
);
