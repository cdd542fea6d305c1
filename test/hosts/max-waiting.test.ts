import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { startRedis } from '../services/redis.ts';
import { acceptedId, adminToken, bundle, follow, launchApi, layOut, upload } from './processes.ts';

/** The configured share of a pipeline in the slots, with any queue. */

for (const driver of ['memory', 'embedded', 'bullmq'] as const)
  t.test(
    `max_waiting limits the waiting runs of a pipeline, and a reload can change it (${driver})`,
    async (t) => {
      const redis = driver === 'bullmq' ? await startRedis() : null;
      t.teardown(() => redis?.close());
      const place = layOut(t, {
        pipelines: 3,
        ...(redis === null ? {} : { redisUrl: redis.url }),
        ...(driver === 'embedded' ? { embedded: './queue' } : {}),
      });
      const yaml = readFileSync(place.config, 'utf8');
      // One percent of the 200 slots is two.
      const bounded = (most: number): string =>
        yaml
          .replace('{id: p1,', `{id: p1, max_waiting: ${most},`)
          .replace('{id: p2,', '{id: p2, max_waiting: 1%,');
      writeFileSync(place.config, bounded(1));
      const daemon = await launchApi(t, place, ['serve']);
      const steer = async (pipeline: string, what: 'pause' | 'resume'): Promise<void> => {
        const headers = { authorization: `Bearer ${adminToken}` };
        await fetch(`${daemon.url}v1/pipelines/${pipeline}/${what}`, { method: 'POST', headers });
      };
      for (const pipeline of place.pipelines) await steer(pipeline, 'pause');
      const taken: string[] = [];
      const send = async (pipeline: string): Promise<Response> => {
        const response = await upload(daemon.url, pipeline, bundle(`b${taken.length}`));
        if (response.status === 202) taken.push(await acceptedId(response.clone()));
        return response;
      };
      const statuses = async (pipeline: string, uploads: number): Promise<number[]> => {
        const found: number[] = [];
        for (let index = 0; index < uploads; index += 1) found.push((await send(pipeline)).status);
        return found;
      };
      t.same(await statuses('p1', 2), [202, 429]);
      t.same(await statuses('p2', 3), [202, 202, 429]);
      t.same(await statuses('p3', 3), [202, 202, 202], 'the share of others is unchanged');
      const refused = await send('p1');
      t.equal(refused.headers.get('retry-after'), '300', 'it is paused: the maximum time');
      t.match(await refused.json(), { code: 'pipeline_full', retryable: true });

      writeFileSync(place.config, bounded(2));
      daemon.child.kill('SIGHUP');
      while ((await send('p1')).status === 429) await new Promise((resolve) => setTimeout(resolve, 50));
      t.equal((await send('p1')).status, 429);
      for (const pipeline of place.pipelines) await steer(pipeline, 'resume');
      for (const run of taken) t.equal((await follow(daemon.url, run)).status, 'succeeded');
      t.equal(taken.length, 7);
      t.equal(await daemon.kill('SIGTERM'), 0);
    },
  );
