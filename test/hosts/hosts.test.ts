import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { manifestOf } from '../fixtures/tar.ts';
import { startChromium } from '../services/chromium.ts';
import { startRedis } from '../services/redis.ts';
import { startSshd } from '../services/sshd.ts';
import { stagedIn } from '../support/staged.ts';
import {
  acceptedId,
  adminToken,
  bundle,
  follow,
  killInRun,
  launch,
  launchApi,
  launchWorker,
  layOut,
  overlaps,
  token,
  upload,
} from './processes.ts';

const password = 'canary-of-redis-5f1d';

t.test(
  'two APIs and two workers: forty uploads of eight pipelines succeed, each pipeline serially, even if a worker is killed',
  async (t) => {
    const redis = await startRedis({ password });
    t.teardown(() => redis.close());
    const place = layOut(t, { redisUrl: redis.url, pipelines: 8 });
    const apis = await Promise.all([launchApi(t, place), launchApi(t, place)]);
    const [doomed, other] = await Promise.all([launchWorker(t, place), launchWorker(t, place)]);
    const names = Array.from({ length: 40 }, (_, index) => `b${String(index).padStart(2, '0')}`);
    const pipelineOf = (index: number): string => place.pipelines[index % 8] as string;
    const killed = killInRun(doomed, apis[0].url);
    const ids: string[] = [];
    for (const [index, name] of names.entries())
      ids.push(await acceptedId(await upload(apis[index % 2]!.url, pipelineOf(index), bundle(name))));
    const interrupted = await killed;
    const records = await Promise.all(ids.map((id, index) => follow(apis[(index + 1) % 2]!.url, id)));
    t.same(
      records.filter(({ status }) => status !== 'succeeded'),
      [],
      'all succeeded',
    );
    for (const id of interrupted)
      t.ok(
        other.lines.some(({ run_id, msg }) => run_id === id && msg === 'run started'),
        'the other worker took over the run of the dead one',
      );
    t.same(await overlaps([doomed, other], apis[0].url), []);
    for (const [index, name] of names.entries())
      t.equal(
        readFileSync(path.join(place.root, 'public', pipelineOf(index), name, 'name.txt'), 'utf8'),
        name,
      );
    for (const pipeline of place.pipelines) {
      const starts = records
        .filter(({ pipeline_id }) => pipeline_id === pipeline)
        .map(({ started_at }) => started_at);
      t.same(starts, [...starts].sort(), `${pipeline} ran in the order of acceptance`);
    }
    t.equal(stagedIn(path.join(place.root, 'staging')).length, 40, 'one archive for each retained run');
    t.equal(await other.kill('SIGTERM'), 0);
    for (const api of apis) t.equal(await api.kill('SIGTERM'), 0);
    t.equal(
      stagedIn(path.join(place.root, 'scratch')).length,
      1,
      'only the killed worker left its scratch directory',
    );
    for (const one of [...apis, doomed, other])
      for (const secret of [password, token, adminToken]) t.notOk(one.output().includes(secret));
    const kept = await redis.cli('KEYS', '*');
    t.ok(kept.includes('waybill:run:'));
  },
);

t.test('reports a killed Redis, loses no accepted run, and recovers without a restart', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url, pipelines: 2 });
  const api = await launchApi(t, place);
  const before = await Promise.all(
    ['a', 'b', 'c', 'd'].map(async (name, index) =>
      acceptedId(await upload(api.url, `p${(index % 2) + 1}`, bundle(name))),
    ),
  );
  await redis.stop('SIGTERM');
  const refused = await upload(api.url, 'p1', bundle('e'));
  t.equal(refused.status, 503);
  t.ok(Number(refused.headers.get('retry-after')) > 0);
  t.match(await refused.json(), { code: 'queue_unavailable', retryable: true });
  const health = await fetch(`${api.url}healthz`);
  t.match([health.status, ((await health.json()) as { code: string }).code], [503, 'queue_unavailable']);
  await redis.start();
  for (let answer = await fetch(`${api.url}healthz`); !answer.ok; answer = await fetch(`${api.url}healthz`))
    await answer.arrayBuffer();
  const worker = await launchWorker(t, place);
  const after = await acceptedId(await upload(api.url, 'p1', bundle('e')));
  for (const id of [...before, after]) t.equal((await follow(api.url, id)).status, 'succeeded');
  t.equal(await worker.kill('SIGTERM'), 0);
});

t.test(
  'an API killed while it receives: its key and slot are released, and another API accepts the upload',
  async (t) => {
    const redis = await startRedis();
    t.teardown(() => redis.close());
    const place = layOut(t, { redisUrl: redis.url });
    const [dying, other] = await Promise.all([launchApi(t, place), launchApi(t, place, ['serve'])]);
    const body = bundle('half', 200_000);
    const socket = net.connect(Number(new URL(dying.url).port), '127.0.0.1');
    t.teardown(() => socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(
      `POST /v1/pipelines/p1/upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/x-tar\r\nIdempotency-Key: k1\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body.subarray(0, 100_000));
    const reserved = async (): Promise<string> => redis.cli('ZCARD', 'waybill:slots');
    while ((await reserved()) !== '1') await new Promise((resolve) => setTimeout(resolve, 20));
    await dying.kill('SIGKILL');
    const first = await upload(other.url, 'p1', body, { 'idempotency-key': 'k1' });
    t.match(
      [first.status, ((await first.json()) as { code: string }).code],
      [409, 'idempotency_in_progress'],
    );
    let retried = first;
    while (retried.status === 409) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      retried = await upload(other.url, 'p1', body, { 'idempotency-key': 'k1' });
    }
    t.equal(retried.status, 202, 'once the dead API is known to be dead');
    t.equal((await follow(other.url, await acceptedId(retried))).status, 'succeeded');
  },
);

t.test(
  'an API killed after it accepted: the run continues, every API knows its key, and staged files expire',
  async (t) => {
    const redis = await startRedis();
    t.teardown(() => redis.close());
    const place = layOut(t, { redisUrl: redis.url, http: 'retention: 10s' });
    const dying = await launchApi(t, place);
    const key = { 'idempotency-key': 'k1' };
    const id = await acceptedId(await upload(dying.url, 'p1', bundle('one'), key));
    await dying.kill('SIGKILL');

    const other = await launchApi(t, place);
    const replay = await upload(other.url, 'p1', bundle('one'), key);
    t.equal(replay.headers.get('idempotency-replayed'), 'true');
    t.equal(await acceptedId(replay), id);
    const conflict = await upload(other.url, 'p1', bundle('two'), key);
    t.match(
      [conflict.status, ((await conflict.json()) as { code: string }).code],
      [409, 'idempotency_conflict'],
    );
    t.equal(stagedIn(path.join(place.root, 'staging')).length, 1, 'a replay stages nothing');

    await launchWorker(t, place);
    t.equal((await follow(other.url, id)).status, 'succeeded');
    const staging = path.join(place.root, 'staging');
    while (stagedIn(staging).length > 0) await new Promise((resolve) => setTimeout(resolve, 100));
    while ((await fetch(`${other.url}runs/${id}`)).status !== 404)
      await new Promise((resolve) => setTimeout(resolve, 100));
    const repeated = await upload(other.url, 'p1', bundle('two'), key);
    t.not(await acceptedId(repeated), id, 'the key was removed with its run');
  },
);

t.test('a stopped worker exits with 0; the memory queue has no workers', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url });
  const worker = await launchWorker(t, place);
  t.equal(await worker.kill('SIGTERM'), 0);
  const [alone, api] = [await launchWorker(t, place), await launchApi(t, place, ['serve'])];
  await redis.stop();
  await alone.until(({ msg }) => msg.startsWith('redis is unreachable'));
  t.equal(await alone.kill('SIGTERM'), 0, 'while Redis is unreachable too');
  t.equal(await api.kill('SIGTERM'), 0);
  writeFileSync(
    place.config,
    readFileSync(place.config, 'utf8').replace(/queue: \{driver.*\}/, 'queue: {driver: memory}'),
  );
  for (const args of [['worker'], ['serve', '--no-workers']]) {
    const refused = launch(t, place, args);
    const [status] = (await once(refused.child, 'exit')) as [number];
    t.equal(status, 2);
    t.match(refused.output(), /server\.queue\.driver is "memory"/);
  }
});

/** The sum of a counter's samples with these labels. */
async function counted(url: string, name: string, labels = ''): Promise<number> {
  const text = await (await fetch(`${url}metrics`)).text();
  const samples = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(labels));
  return samples.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

t.test('counts each run and publication once over all APIs and workers', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url, pipelines: 3, workerTimeout: '10m' });
  const listening = async (launched: ReturnType<typeof launch>): Promise<string> =>
    (await launched.until(({ msg }) => msg === 'listening')).url ?? '';
  const worker = launch(t, place, ['worker', '--listen', '127.0.0.1:0']);
  const [alone, both] = await Promise.all([launchApi(t, place), launchApi(t, place, ['serve'])]);
  const urls = [alone.url, both.url, await listening(worker)];
  const total = async (name: string, labels = ''): Promise<number[]> =>
    Promise.all(urls.map((url) => counted(url, name, labels)));
  const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0);

  const ids: string[] = [];
  for (let index = 0; index < 24; index += 1)
    ids.push(
      await acceptedId(
        await upload(urls[index % 2] as string, `p${(index % 3) + 1}`, bundle(`b${index % 12}`)),
      ),
    );
  for (const id of ids) t.equal((await follow(alone.url, id)).status, 'succeeded');
  // A run is counted just after its end is recorded.
  while (sum(await total('waybill_runs_total')) < ids.length)
    await new Promise((resolve) => setTimeout(resolve, 20));

  const runs = await total('waybill_runs_total', 'status="succeeded"');
  t.equal(runs[0], 0, 'an API without workers publishes nothing');
  t.equal(sum(runs), 24, `each run once: ${runs.join(' + ')}`);
  t.equal(sum(await total('waybill_runs_total', 'status="failed"')), 0);
  t.equal(sum(await total('waybill_run_duration_seconds_count')), 24);
  t.equal(sum(await total('waybill_run_queue_seconds_count')), 24);
  t.equal(sum(await total('waybill_publications_total', 'action="publish_new"')), 12);
  t.equal(sum(await total('waybill_publications_total', 'action="skip_same"')), 12);
  t.equal(sum(await total('waybill_outputs_written_total')), 24, 'two files of each bundle');
  t.same(await total('waybill_uploads_total', 'result="accepted"'), [12, 12, 0]);
  for (const url of urls) {
    const text = await (await fetch(`${url}metrics`)).text();
    for (const name of ['waybill_build_info', 'waybill_worker_threads', 'waybill_event_loop_lag_seconds'])
      t.match(text, new RegExp(`^# TYPE ${name} `, 'm'));
    t.match(text, /^waybill_event_loop_lag_seconds_count [1-9]/m, 'it is measured');
    t.match(text, /^process_cpu_seconds_total /m);
  }
  for (const launched of [worker, both, alone]) t.equal(await launched.kill('SIGTERM'), 0);
});

t.test("a worker's probes: ready while queue and staging are available, always alive", async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url });
  const settings = '  metrics: {token_env: TOKEN_ADMIN}\n  worker: {listen: "127.0.0.1:0"}\n  http:';
  writeFileSync(place.config, readFileSync(place.config, 'utf8').replace('  http:', settings));
  const worker = launch(t, place, ['worker']);
  const { url = '' } = await worker.until(({ msg }) => msg === 'listening');
  const get = async (path: string, headers = {}): Promise<{ status: number; body: unknown }> => {
    const response = await fetch(`${url}${path}`, { headers });
    const text = await response.text();
    return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text };
  };
  const { status, body } = await get('readyz');
  const { checks, ...rest } = body as { checks: { name: string; state: string }[] };
  t.strictSame(
    [status, rest],
    [200, { status: 'ok', details: { threads: { threads: 0, busy: 0, replaced: 0 } } }],
  );
  t.match(
    checks,
    ['queue', 'staging', 'room', 'shared_staging'].map((name) => ({ name, state: 'ok' })),
  );
  t.match(await get('metrics'), { status: 401, body: { code: 'unauthorized' } });
  t.match(await get('metrics', { authorization: `Bearer ${adminToken}` }), {
    status: 200,
    body: /waybill_runs_total\{pipeline="p1",status="succeeded"\} 0/,
  });
  t.match(await get('runs/none'), { status: 404, body: { code: 'not_found' } });

  const taken = launch(t, place, ['worker', '--listen', new URL(url).host]);
  t.equal((await once(taken.child, 'exit'))[0], 2);
  t.match(taken.output(), /server\.worker\.listen: cannot listen/);
  const wrong = launch(t, place, ['worker', '--listen', 'nowhere']);
  t.equal((await once(wrong.child, 'exit'))[0], 2);
  t.match(wrong.output(), /--listen nowhere: the port is missing/);

  await redis.stop();
  await worker.until(({ msg }) => msg.startsWith('redis is unreachable'));
  t.match(await get('healthz'), {
    status: 503,
    body: {
      code: 'queue_unavailable',
      checks: [{ name: 'queue', state: 'failing', hint: /^check that Redis runs/ }, { state: 'ok' }],
    },
  });
  t.same(await get('livez'), { status: 200, body: { status: 'ok' } });
  t.equal(await worker.kill('SIGTERM'), 0);
});

t.test('a worker executes runs of a pipeline with its own source like any other', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url });
  mkdirSync(path.join(place.root, 'source/one'), { recursive: true });
  writeFileSync(path.join(place.root, 'source/one/manifest.json'), manifestOf(['a.txt']));
  writeFileSync(path.join(place.root, 'source/one/a.txt'), 'hello');
  writeFileSync(
    place.config,
    readFileSync(place.config, 'utf8')
      .replace('pipelines: [p1]', 'pipelines: [p1, files]')
      .concat(
        '  - {id: files, source: {backend: local, path: ./source}, destinations: [{id: web, backend: local, path: ./public/files}]}\n',
      ),
  );
  const api = await launchApi(t, place);
  await launchWorker(t, place);
  const started = await fetch(`${api.url}v1/pipelines/files/runs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  t.match(await follow(api.url, await acceptedId(started)), { status: 'succeeded' });
  t.equal(readFileSync(path.join(place.root, 'public/files/one/a.txt'), 'utf8'), 'hello');
});

t.test('a dry run is planned by the API that received it, and leaves no files on any host', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url });
  const api = await launchApi(t, place);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' };
  const response = await fetch(`${api.url}v1/pipelines/p1/upload?dry_run=true`, {
    method: 'POST',
    headers,
    body: new Uint8Array(bundle('one')),
  });
  t.equal(response.status, 200);
  const { pipelines } = (await response.json()) as {
    pipelines: { destinations: { actions: { action: string }[] }[] }[];
  };
  t.equal(pipelines[0]?.destinations[0]?.actions[0]?.action, 'publish_new');
  t.notOk(existsSync(path.join(place.root, 'public/p1/one')));
  const listed = await fetch(`${api.url}v1/pipelines/p1/runs`, { headers });
  t.same(await listed.json(), { runs: [], next: null, paused: null });
  const staged = readdirSync(place.root, { recursive: true, encoding: 'utf8' });
  t.same(
    staged.filter((name) => name.includes('upload-')),
    [],
  );
  t.equal(await api.kill('SIGTERM'), 0);
});

t.test('the console shows the queues of all hosts, and replaces the previous board', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, { redisUrl: redis.url, http: 'base_path: /way/' });
  const { url } = await launchApi(t, place);
  const former = await fetch(`${url}admin/queues`, { redirect: 'manual' });
  t.match([former.status, former.headers.get('location')], [308, '/way/console/admin']);
  // There is no worker, so it waits.
  const runId = await acceptedId(await upload(url, 'p1', bundle('one', 10)));

  const browser = await startChromium();
  t.teardown(() => browser.close());
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(new URL(url).origin)) complaints.push(`asks for ${request.url()}`);
  });
  await page.goto(`${url}admin/queues`);
  await page.getByLabel('Token').fill(adminToken);
  await page.getByRole('button', { name: 'Log in' }).click();
  const row = page.getByRole('row', { name: /p1/ });
  t.match(await row.innerText(), /waiting\s.*\t1\t/s);
  t.match(await row.getByRole('link', { name: 'p1' }).getAttribute('href'), /console\/pipelines\/p1/);
  t.match(runId, /^p1/);
  t.strictSame(complaints, []);
});

t.test('stages bundles on an SFTP server between the API and a worker, and sweeps them there', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const sshd = await startSshd(t);
  const staging = `{backend: sftp, host: ${sshd.host}, port: ${sshd.port}, user: ${sshd.user}, path: "${sshd.root}/staging", ssh_key_file: "${sshd.clientKeyFile}", known_hosts_file: "${sshd.knownHostsFile}"}`;
  const place = layOut(t, { redisUrl: redis.url, pipelines: 2, http: 'retention: 10s', staging });
  const api = await launchApi(t, place);
  await launchWorker(t, place);
  const names = Array.from({ length: 8 }, (_, index) => `b${index}`);
  const followed = await Promise.all(
    names.map(async (name, index) => {
      const response = await upload(api.url, `p${(index % 2) + 1}`, bundle(name, 300_000));
      return follow(api.url, await acceptedId(response));
    }),
  );
  for (const { status } of followed) t.equal(status, 'succeeded');
  for (const [index, name] of names.entries())
    t.ok(
      readFileSync(path.join(place.root, 'public', `p${(index % 2) + 1}`, name, 'data.bin')).equals(
        Buffer.alloc(300_000, name),
      ),
    );
  while (stagedIn(path.join(sshd.root, 'staging')).length > 0) await systemClock.sleep(50);
  t.pass('the archives are removed with the records of their runs');
});
