import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import * as tar from 'tar';
import { serve } from '../../src/cli/daemon/serve.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { tokens } from '../api/harness.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { startSshd } from '../services/sshd.ts';

const manifest = '{"schema_version":1,"name":"one","created":"2026-11-20T01:02:03Z","files":["a.bin"]}';

t.test('a silent server stops only its own pipeline', async (t) => {
  const server = await startSshd(t);
  const proxy = await startCuttingProxy(t, server.port);
  const root = t.testdir({ public: {}, bundle: { 'manifest.json': manifest } });
  writeFileSync(path.join(root, 'bundle/a.bin'), Buffer.alloc(4 * 1024 * 1024, 'x'));
  const sftp = `host: 127.0.0.1, port: ${proxy.port}, user: ${server.user}, path: "${server.root}", ssh_key_file: "${server.clientKeyFile}", known_hosts_file: "${server.knownHostsFile}"`;
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [stuck, docs]}]
server:
  http: {listen: "127.0.0.1:0", max_concurrency: 2}
  staging: {directory: ./staging}
pipelines:
  - id: stuck
    run_timeout: 15s
    source: {backend: http_upload}
    destinations: [{id: far, backend: sftp, ${sftp}}]
  - id: docs
    source: {backend: http_upload}
    destinations: [{id: disk, backend: local, path: ./public}]
`,
  );
  const served = await serve({ configFile, log: silentLog, env: { TOKEN: tokens.maps, HOME: root } });
  t.teardown(() => served.close());
  const body = tar.create({ cwd: path.join(root, 'bundle'), portable: true, sync: true }, ['.']).read();
  const upload = async (pipelineId: string, query = ''): Promise<Response> =>
    fetch(`${served.url}v1/pipelines/${pipelineId}/upload${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.maps}`, 'content-type': 'application/x-tar' },
      body: new Uint8Array(body as Buffer),
    });
  const accepted = async (pipelineId: string): Promise<string> =>
    ((await (await upload(pipelineId)).json()) as { run_id: string }).run_id;
  const until = async <T>(look: () => T | Promise<T>, is: (seen: T) => boolean): Promise<T> => {
    for (;;) {
      const seen = await look();
      if (is(seen)) return seen;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const runOf = async (id: string): Promise<RunRecord> =>
    (await (await fetch(`${served.url}runs/${id}`)).json()) as RunRecord;
  const ended = async (id: string): Promise<RunRecord> =>
    until(
      () => runOf(id),
      ({ finished_at }) => finished_at !== null,
    );

  // In the middle of the file.
  proxy.slowTo(2 * 1024 * 1024);
  const stuck = await accepted('stuck');
  const waiting = await accepted('stuck');
  await until(
    async () => (await runOf(stuck)).finished_at !== null || proxy.passed('to the server') > 512 * 1024,
    (isReached) => isReached,
  );
  proxy.hang();

  t.match(await ended(await accepted('docs')), { status: 'succeeded' });
  t.ok(existsSync(path.join(root, 'public')));
  // Dry runs of the stalled pipeline leave a thread for the other pipelines.
  const dry = [upload('stuck', '?dry_run=true'), upload('stuck', '?dry_run=true')];
  const answers = Promise.allSettled(dry);
  t.equal((await upload('docs', '?dry_run=true')).status, 200);

  const record = await ended(stuck);
  const { error = null } = record.error === null ? (record.destinations[0] ?? {}) : record;
  t.match(error, { code: 'run_timeout', retryable: false });
  t.match(error?.message, /^the run did not end within 15s \(run_timeout\): it was /);
  t.match(record, { status: 'failed', next_try_at: null, attempt: 1 });
  await fetch(`${served.url}v1/pipelines/stuck/runs/${waiting}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${tokens.maps}` },
  });
  await answers;
  proxy.resume();
  t.match(await ended(await accepted('docs')), { status: 'succeeded' }, 'the daemon continues');
});
