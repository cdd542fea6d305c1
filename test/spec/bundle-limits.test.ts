import { readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { holdLease } from '../cli/held.ts';
import { Api, archive, uploads } from './daemon.ts';
import { World } from './harness.ts';

/**
 * The limits of the HTTP API, expiry, and data that a restart clears, with one daemon with small settings.
 */

const api = await Api.start(t, new World(t, uploads('queue_size: 2, max_concurrency: 1, retention: 2s')));

/** Directories of staged bundles. */
const staged = (): string[] =>
  readdirSync(api.world.at('staging')).filter((name) => !name.startsWith('content'));

t.test('sizes', async (t) => {
  const noise = Buffer.alloc(150 << 10, 'x').toString();
  const large = await api.upload({ body: archive({ 'a.txt': noise }) });
  const bomb = await api.upload({ type: 'application/gzip', body: gzipSync(archive({ 'a.txt': noise })) });
  const many = Object.fromEntries(Array.from({ length: 6 }, (_, index) => [`${index}.txt`, 'x']));
  const files = await api.upload({ body: archive(many) });
  const fits = await api.accepted();
  t.equal(await api.until(fits.run_id, 'succeeded', 'failed'), 'succeeded');

  for (const title of [
    'max_upload_size (per source) · Bounds archive size and extracted bundle size.',
    '`max_upload_size` per source · Archive size and extracted bundle size.',
  ])
    t.test(title, async (t) => {
      t.equal(large.status, 413, 'an archive of 150 KiB where 100 KiB are allowed');
      t.equal(bomb.status, 413, 'a small archive that expands to the same size');
    });

  t.test(
    '`max_upload_size` bounds both the uploaded archive size and the extracted bundle size; extracted file count is also capped.',
    async (t) => {
      t.same([large.status, bomb.status, files.status], [413, 413, 413]);
    },
  );

  t.test('Extracted file count cap · Uploads; the value is not shown.', async (t) => {
    t.match(await files.json(), { code: 'too_many_files' });
  });
});

t.test('admission', async (t) => {
  for (const path of ['up', 'other']) holdLease(api.world.at(path));
  const first = await api.accepted({ body: archive({ 'a.txt': 'held' }) });
  await api.until(first.run_id, 'running');
  const others = [await api.accepted({ pipeline: 'other' }), await api.accepted()];
  const refused = await api.upload();
  const waiting = await Promise.all(others.map(async ({ run_id }) => api.status(run_id)));
  for (const path of ['up', 'other']) api.world.remove(`${path}/.publisher.lock`);
  for (const { run_id } of [first, ...others]) await api.until(run_id, 'succeeded', 'failed', null);

  for (const title of [
    'server.http.queue_size · Upload admission bound.',
    '`server.http.queue_size` · Upload admission.',
  ])
    t.test(title, async (t) => {
      t.equal(refused.status, 503, 'with two waiting uploads, a third is rejected');
    });

  for (const title of [
    'server.http.max_concurrency · Publication concurrency bound.',
    '`server.http.max_concurrency` · Concurrent publications.',
  ])
    t.test(title, async (t) => {
      t.same(waiting, ['queued', 'queued'], 'the run of another pipeline waits, too');
    });
});

t.test('what expires', async (t) => {
  const body = archive({ 'a.txt': 'expires' });
  const first = await api.accepted({ key: 'k', body });
  await api.until(first.run_id, 'succeeded');
  const kept = staged();
  await api.until(first.run_id, null);
  while (staged().length > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  const second = await api.accepted({ key: 'k', body });
  await api.until(second.run_id, 'succeeded');

  t.test('server.http.retention · How long completed run records are kept.', async (t) => {
    t.equal(await api.status(first.run_id), null);
  });

  t.test(
    '`server.http.retention` · Lifetime of completed run records and idempotency records.',
    async (t) => {
      t.not(second.run_id, first.run_id, 'the key is free again');
    },
  );

  await api.restart();
  const afterRestart = await api.status(second.run_id);
  const third = await api.accepted({ key: 'k', body });

  t.test('Idempotency records are memory-only and expire with completed run records.', async (t) => {
    t.not(second.run_id, first.run_id, 'expired');
    t.not(third.run_id, second.run_id, 'missing after a restart');
  });

  t.test(
    'Rules: completed records expire after `server.http.retention`; expiry removes the committed staged bundle directories of completed uploads; a process restart clears run status, queue state and in-memory records.',
    async (t) => {
      t.ok(kept.length > 0, 'the bundle of a retained run is staged');
      t.equal(afterRestart, null);
      t.ok((await api.get('healthz')).ok);
    },
  );
});
