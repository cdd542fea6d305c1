import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { startRedis } from '../services/redis.ts';
import { howMany } from '../support/sampling.ts';
import { stagedIn } from '../support/staged.ts';
import { acceptedId, bundle, follow, launchApi, layOut, upload } from './processes.ts';

const uploads = howMany(200, 40);
const pipelines = 20;
const bytes = 50_000;

for (const mode of ['memory', 'bullmq'] as const)
  t.test(`${uploads} concurrent uploads to ${pipelines} pipelines, the queue in ${mode}`, async (t) => {
    const redis = mode === 'bullmq' ? await startRedis() : undefined;
    if (redis !== undefined) t.teardown(() => redis.close());
    const place = layOut(t, {
      pipelines,
      http: 'max_concurrency: 3',
      ...(redis === undefined ? {} : { redisUrl: redis.url, workerTimeout: '10m' }),
    });
    const daemon = await launchApi(t, place, ['serve']);
    const names = Array.from({ length: uploads }, (_, index) => `b${String(index).padStart(3, '0')}`);
    const pipelineOf = (index: number): string => place.pipelines[index % pipelines] ?? '';
    const ids = await Promise.all(
      names.map(async (name, index) =>
        acceptedId(await uploadPatiently(daemon.url, pipelineOf(index), name)),
      ),
    );
    t.equal(new Set(ids).size, uploads);
    const records = await Promise.all(ids.map((id) => follow(daemon.url, id)));
    t.same(
      records.filter(({ status }) => status !== 'succeeded'),
      [],
      'all succeeded',
    );
    const wrong = names.filter((name, index) => {
      const out = path.join(place.root, 'public', pipelineOf(index), name);
      const data = readFileSync(path.join(out, 'data.bin'));
      return (
        !data.equals(Buffer.alloc(bytes, name)) || readFileSync(path.join(out, 'name.txt'), 'utf8') !== name
      );
    });
    t.same(wrong, [], 'every file is unchanged');
    t.ok(maxAtOnce(records) <= 3, 'at most max_concurrency run concurrently');
    for (const pipeline of place.pipelines) {
      const own = records.filter(({ pipeline_id }) => pipeline_id === pipeline);
      // The time of acceptance has milliseconds. Two runs in the same one may have any order.
      own.sort(
        (a, b) => order(a.accepted_at, b.accepted_at) || order(a.started_at ?? '', b.started_at ?? ''),
      );
      // Two concurrent requests may overtake each other between the API and Redis.
      if (mode === 'memory') {
        const starts = own.map(({ started_at }) => started_at ?? '');
        t.same(starts, [...starts].sort(), `${pipeline} ran in the order of acceptance`);
      }
      t.equal(maxAtOnce(own), 1, 'one at a time');
    }
    t.equal(await daemon.kill('SIGTERM'), 0);
    if (mode === 'memory')
      t.same(stagedIn(path.join(place.root, 'staging')), [], 'staging is swept at the end');
  });

/**
 * On a busy machine, Redis may not answer in time. Then the upload is rejected with `queue_unavailable` and
 * repeated, as producers do. Any other refusal is returned, especially `queue_full`, because there are as
 * many slots as uploads.
 */
async function uploadPatiently(url: string, pipeline: string, name: string): Promise<Response> {
  for (;;) {
    const response = await upload(url, pipeline, bundle(name, bytes), { 'idempotency-key': name });
    const { code = '' } = (await response.clone().json()) as { code?: string };
    if (code !== 'queue_unavailable' && code !== 'idempotency_in_progress') return response;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The maximum number of concurrent runs. */
function maxAtOnce(records: readonly { started_at: string | null; finished_at: string | null }[]): number {
  const moments = records.flatMap(({ started_at, finished_at }) => [
    { at: started_at ?? '', change: 1 },
    { at: finished_at ?? '', change: -1 },
  ]);
  // A run that ends in the millisecond in which the next one begins does not count as concurrent.
  moments.sort((a, b) => order(a.at, b.at) || a.change - b.change);
  let now = 0;
  return Math.max(...moments.map(({ change }) => (now += change)));
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
