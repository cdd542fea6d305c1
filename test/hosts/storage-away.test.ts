import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import * as tar from 'tar';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { tokens } from '../api/harness.ts';
import { startRadosgw } from '../services/radosgw.ts';
import { startS3Proxy, type Verdict } from '../services/s3-proxy.ts';

/** An attempt does not wait for such a long pause, but would wait for up to a minute otherwise. */
const away: Verdict = { status: 503, code: 'SlowDown', headers: { 'retry-after': '120' } };
const authorization = `Bearer ${tokens.maps}`;

t.test('publishes an upload after a storage outage and a restart of the daemon', async (t) => {
  const server = await startRadosgw(t);
  const proxy = await startS3Proxy(t, server);
  const bucket = await server.newBucket();
  const root = t.testdir({ public: {}, bundle: { 'a.txt': 'hello' } });
  const manifest = '{"schema_version":1,"name":"one","created":"2026-11-20T01:02:03Z","files":["a.txt"]}';
  writeFileSync(path.join(root, 'bundle/manifest.json'), manifest);
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:0"}
  staging: {directory: ./staging}
  queue: {driver: embedded, directory: ./queue}
  retry_for: 1h
notifiers:
  - id: log
    kind: file
    path: ./events.jsonl
    events: [bundle.published, bundle.publish_failed, run.retry_scheduled]
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations:
      - {id: disk, backend: local, path: ./public}
      - {id: s3, backend: s3, endpoint: "${proxy.endpoint}", bucket: ${bucket}, access_key_id_env: KEY, secret_access_key_env: SECRET}
`,
  );
  const { accessKeyId: KEY, secretAccessKey: SECRET } = server.user;
  const env = { TOKEN: tokens.maps, HOME: root, KEY, SECRET };
  const start = (): Promise<RunningServer> => serve({ configFile, log: silentLog, env });
  const until = async (
    served: RunningServer,
    id: string,
    is: (run: RunRecord) => boolean,
  ): Promise<RunRecord> => {
    for (;;) {
      const run = (await (await fetch(`${served.url}runs/${id}`)).json()) as RunRecord;
      if (is(run)) return run;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const isWaiting = ({ status, next_try_at }: RunRecord): boolean =>
    status === 'queued' && next_try_at !== null;

  proxy.judge = () => away;
  let served = await start();
  t.teardown(() => served.close());
  const body = tar.create({ cwd: path.join(root, 'bundle'), portable: true, sync: true }, ['.']).read();
  const accepted = await fetch(`${served.url}v1/pipelines/maps/upload`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/x-tar' },
    body: new Uint8Array(body as Buffer),
  });
  const { run_id: id } = (await accepted.json()) as { run_id: string };
  const waiting = await until(served, id, isWaiting);
  t.match(waiting, {
    ...{ error: null, last_error: { code: 'storage_transient' }, finished_at: null },
    destinations: [{ destination_id: 'disk', error: null }, { destination_id: 's3' }],
  });
  const place = waiting.destinations[0]?.destination_path ?? '';
  t.ok(existsSync(path.join(root, 'public', place, 'a.txt')), 'the available destination is published');
  await served.close();

  served = await start();
  t.match(await until(served, id, isWaiting), { last_error: { code: 'storage_transient' } });
  proxy.judge = () => 'pass';
  // The retry may have started by itself.
  const answer = await fetch(`${served.url}v1/pipelines/maps/runs/${id}/retry`, {
    method: 'POST',
    headers: { authorization },
  });
  t.ok(answer.ok || answer.status === 409, String(answer.status));
  const done = await until(served, id, ({ finished_at }) => finished_at !== null);
  t.match(done, { status: 'succeeded', error: null, next_try_at: null });
  t.ok(done.attempt > 1);
  await served.close();

  const events = readFileSync(path.join(root, 'events.jsonl'), 'utf8').trim().split('\n');
  const seen = events.map((line) => JSON.parse(line) as { type: string; data: Record<string, unknown> });
  t.same(
    seen.filter(({ type }) => type === 'bundle.published').map(({ data }) => data['destination_id']),
    ['disk', 's3'],
    'each publication is reported once',
  );
  const retries = seen.filter(({ type }) => type === 'run.retry_scheduled');
  t.match(retries[0]?.data, {
    destination_id: 's3',
    run_id: id,
    attempt: 2,
    error: { code: 'storage_transient' },
  });
  t.equal(retries.length, done.attempt - 1, 'one for each failed attempt');
  t.equal(seen.length, retries.length + 2, 'and no failure');
});
