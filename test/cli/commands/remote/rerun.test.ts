import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { startDaemon } from '../../daemon.ts';
import { document, type Ended, waybill } from '../../process.ts';

const token = 'a-token-of-all-producers';
const config = [
  'upload_tokens:',
  '  - {id: ci, value_env: TOKEN_CI, pipelines: [site]}',
  '  - {id: uploader, value_env: TOKEN_UPLOADER, pipelines: [site], scopes: [upload, read]}',
  '  - {id: other, value_env: TOKEN_OTHER, pipelines: [other]}',
  'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}, rerun: {max_bundles: 1}}',
  'pipelines:',
  '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
  '  - {id: other, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./other}]}',
].join('\n');

t.test("runs rerun: publishes a failed run from the daemon's copy after a fix", async (t) => {
  const place = t.testdir({
    'c.yml': config,
    web: { n: { 'diary.txt': 'not yours' }, m: { 'diary.txt': 'not yours' } },
    site: { 'index.html': '<p>' },
  });
  const { url } = await startDaemon(t, place, {
    TOKEN_CI: token,
    TOKEN_UPLOADER: 'token-of-the-one-uploader',
    TOKEN_OTHER: 'token-of-another-uploader',
  });
  const run = (args: string[], value = token): Ended =>
    waybill([...args, '--to', url], { cwd: place, env: { WAYBILL_TOKEN: value } });
  const push = (name: string): { run_id: string } =>
    document(t, run(['push', 'site', '-p', 'site', '--name', name, '--format', 'json'])) as {
      run_id: string;
    };

  const { run_id: failed } = push('n');
  // The producer does not need to keep the upload.
  rmSync(path.join(place, 'site', 'index.html'));
  const second = run(['runs', 'rerun', failed]);
  t.match(second, {
    status: 1,
    stdout: /^failed {2}(site\.\S+) .*\n(?: {2}.*\n)? {2}✗ web .*\n +unmanaged_content/,
    stderr: /^note {2}accepted as site\.\S+; waiting for the result\n$/,
  });
  const secondId = /site\.\S+/.exec(second.stdout)?.[0] ?? '';
  t.not(secondId, failed);

  const again = run(['runs', 'rerun', failed]);
  t.match(again, { status: 1, stdout: new RegExp(`^failed {2}${secondId} `) });
  t.match(again.stderr, `${failed} was repeated before, as ${secondId}`);
  t.match(again.stderr, `waybill runs rerun ${secondId} --to ${url}`, 'it names the run to repeat');

  rmSync(path.join(place, 'web/n/diary.txt'));
  const repeated = run(['runs', 'rerun', secondId, '--timeout', '10m', '--format', 'json']);
  t.equal(repeated.status, 0);
  t.match(document(t, repeated), {
    kind: 'rerun',
    rerun_of: secondId,
    is_replayed: false,
    run: { status: 'succeeded', rerun_of: secondId },
  });
  t.equal(readFileSync(path.join(place, 'web/n/index.html'), 'utf8'), '<p>');

  const { run_id: third } = document(t, repeated) as { run_id: string };
  writeFileSync(path.join(place, 'site', 'index.html'), '<p>');
  push('m'); // The daemon keeps a single bundle, so it keeps this one instead.
  t.match(run(['runs', 'rerun', third]), {
    status: 1,
    stdout: '',
    stderr: /no longer staged.*\nnext {3}upload it again; .*send it again: waybill push --to/,
  });
  t.match(run(['runs', 'rerun', 'site.unknown']), {
    status: 1,
    stdout: '',
    stderr: /no such run.*\nnext {3}waybill runs list --to/,
  });
  t.match(run(['runs', 'rerun', failed], 'wrong'), { status: 2, stderr: /next {3}.*WAYBILL_TOKEN/ });
  t.match(run(['runs', 'rerun', failed], 'token-of-another-uploader'), {
    status: 2,
    stderr: /waybill pipelines --to/,
  });
  t.match(run(['runs', 'rerun', failed], 'token-of-the-one-uploader'), { status: 2, stderr: /scope/ });
  t.match(run(['runs', 'rerun', failed, '--timeout', 'soon']), {
    status: 2,
    stderr: /--timeout: "soon" is not a duration/,
  });
  t.match(waybill(['runs', 'rerun', failed, '--to', url], { cwd: place }), {
    status: 2,
    stderr: /no token was given/,
  });
});

t.test('runs rerun --no-wait ends once the new run is accepted', async (t) => {
  const place = t.testdir({
    'c.yml': config,
    web: { n: { 'diary.txt': 'not yours' } },
    site: { 'index.html': '<p>' },
  });
  const { url } = await startDaemon(t, place, {
    TOKEN_CI: token,
    TOKEN_UPLOADER: 'u'.repeat(24),
    TOKEN_OTHER: 'o'.repeat(24),
  });
  const run = (args: string[]): Ended =>
    waybill([...args, '--to', url], { cwd: place, env: { WAYBILL_TOKEN: token } });
  const pushed = run(['push', 'site', '-p', 'site', '--name', 'n', '--format', 'json']);
  t.equal(pushed.status, 1);
  const { run_id: failed } = document(t, pushed) as { run_id: string };
  const taken = run(['runs', 'rerun', failed, '--no-wait']);
  t.match(taken, { status: 0, stdout: /^accepted {2}site\.\S+\n$/, stderr: '' });
  const id = taken.stdout.trim().replace('accepted  ', '');
  t.match(document(t, run(['runs', 'rerun', failed, '--no-wait', '--format', 'json'])), {
    run_id: id,
    rerun_of: failed,
    is_replayed: true,
    run: null,
  });
  t.equal(run(['runs', 'follow', id]).status, 1, 'it runs, and fails like the first one');
});
