import { existsSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../../../daemon.ts';
import { document, type Ended, waybill } from '../../../process.ts';

/** Previews over HTTP: every way to publish accepts a channel, and the daemon ends it. */

const token = 'token-of-producers-of-maps';
const releases = 'layout: releases, workflow: replacement, mapping: fixed, stale: publish';
const config = [
  'upload_tokens:',
  '  - {id: ci, value_env: TOKEN, pipelines: [site, files]}',
  'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}, rerun: {max_bundles: 9}}',
  'pipelines:',
  '  - id: site',
  '    source: {backend: http_upload}',
  '    destinations:',
  `      - {id: web, backend: local, path: ./web, ${releases}, releases: {channels: {preview: {ttl: 1d}}}}`,
  '      - {id: plain, backend: local, path: ./plain}',
  '  - id: files',
  '    source: {backend: local, path: ./source}',
  `    destinations: [{id: web, backend: local, path: ./files, ${releases}, releases: {channels: {beta: {}}}}]`,
].join('\n');

async function until(isDone: () => boolean): Promise<void> {
  while (!isDone()) await sleep(50);
}

t.test('a channel accepts pushes, uploads, started runs and reruns, and the daemon ends it', async (t) => {
  const place = t.testdir({ 'c.yml': config, site: { 'index.html': 'version 1' }, source: {} });
  const at = (...names: string[]): string => path.join(place, ...names);
  const shown = (...names: string[]): string => readFileSync(at(...names, 'index.html'), 'utf8');
  const env = { TOKEN: token };
  const daemon = await startDaemon(t, place, env);
  const run = (...args: string[]): Ended =>
    waybill([...args, '--to', daemon.url], { cwd: place, env: { WAYBILL_TOKEN: token } });
  const push = (...args: string[]): Ended => run('push', 'site', '-p', 'site', ...args);

  t.equal(push().status, 0);
  const key = waybill(['pack', 'site', '-o', 'first.tgz', '--format', 'json'], { cwd: place });
  t.equal(key.status, 0);
  rmSync(at('plain'), { recursive: true });
  // The bundle is the current one. It needs its own key, because it is another request.
  const same = document(t, push('--channel', 'preview', '--format', 'json')) as {
    run_id: string;
    is_replayed: boolean;
    run: object;
  };
  t.match(same, {
    is_replayed: false,
    run: { channel: 'preview', status: 'succeeded', destinations: [{ destination_id: 'web' }] },
  });
  t.equal(readlinkSync(at('web', 'preview')), readlinkSync(at('web', 'current')));
  t.notOk(existsSync(at('plain')), 'destinations without that channel are unchanged');
  t.match(document(t, push('--channel', 'preview', '--format', 'json')), { is_replayed: true });

  writeFileSync(at('site', 'index.html'), 'version 2');
  const plan = push('--channel', 'preview', '--dry-run', '--format', 'json');
  t.match(JSON.parse(plan.stdout), {
    pipelines: [{ destinations: [{ actions: [{ channel: 'preview' }] }] }],
  });
  t.equal(shown('web', 'preview'), 'version 1');
  t.equal(push('--channel', 'preview', '--resumable', 'always', '--whole').status, 0);
  t.same([shown('web', 'preview'), shown('web', 'current')], ['version 2', 'version 1']);
  writeFileSync(at('site', 'index.html'), 'version 3');
  t.equal(push('--channel', 'preview', '--resumable', 'never').status, 0, 'in parts');
  t.equal(shown('web', 'preview'), 'version 3');

  t.equal(run('runs', 'rerun', same.run_id).status, 0);
  t.same([shown('web', 'preview'), shown('web', 'current')], ['version 1', 'version 1'], 'repeated there');

  t.match(push('--channel', 'perview'), {
    status: 2,
    stderr: /channel "perview"[^]*did you mean "preview"\?/,
  });
  const headers = { authorization: `Bearer ${token}`, 'idempotency-key': 'mine' };
  const body = readFileSync(at('first.tgz'));
  const upload = async (query: string): Promise<Response> =>
    fetch(`${daemon.url}v1/pipelines/site/upload?${query}`, {
      ...{ method: 'POST', body, headers: { ...headers, 'content-type': 'application/gzip' } },
    });
  t.equal((await upload('channel=preview')).status, 202);
  t.equal((await upload('channel=preview')).headers.get('idempotency-replayed'), 'true');
  const other = await upload('');
  t.same([other.status, ((await other.json()) as { code: string }).code], [409, 'idempotency_conflict']);
  const start = async (query: string): Promise<Response> =>
    fetch(`${daemon.url}v1/pipelines/files/runs?${query}`, {
      ...{ method: 'POST', headers: { ...headers, 'idempotency-key': 'start' } },
    });
  t.equal((await start('channel=preview')).status, 404, 'the channel of another pipeline');
  const started = await start('channel=beta');
  t.equal(started.status, 202);
  t.equal((await start('')).status, 409, 'the same key for the current release');
  t.equal((await upload('channel=CURRENT')).status, 400);

  const ledger = at('web', '.publisher.releases.json');
  const text = readFileSync(ledger, 'utf8').replace(
    /"expires_at": "[^"]+"/,
    '"expires_at": "2026-01-01T00:00:00Z"',
  );
  await until(() => !existsSync(at('web', '.publisher.lock')));
  daemon.process.kill('SIGKILL');
  writeFileSync(ledger, text);
  await startDaemon(t, place, env);
  await until(() => !existsSync(at('web', 'preview')));
  t.notOk(existsSync(at('web', 'preview')), 'it has expired');
  t.equal(shown('web', 'current'), 'version 1');
});
