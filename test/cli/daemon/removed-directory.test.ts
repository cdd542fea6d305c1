import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { bundleTar } from '../../fixtures/tar.ts';
import { startDaemon } from '../daemon.ts';

const token = 'token-of-the-pipeline-maps';

t.test('uploads are published after the working directory of the daemon was removed', async (t) => {
  const root = t.testdir();
  const place = path.join(root, 'release-1');
  mkdirSync(place);
  writeFileSync(
    path.join(place, 'c.yml'),
    `server: { http: { listen: '127.0.0.1:0' }, staging: { directory: ${root}/staging } }
upload_tokens: [{ id: ci, value_env: WAYBILL_TOKEN, pipelines: [maps] }]
pipelines:
  - id: maps
    source: { backend: http_upload }
    destinations: [{ id: web, backend: local, path: ${root}/www }]`,
  );
  const { url } = await startDaemon(t, place, { WAYBILL_TOKEN: token });
  rmSync(place, { recursive: true });
  const response = await fetch(`${url}v1/pipelines/maps/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
    body: bundleTar({ 'index.html': 'hello' }, { name: 'site' }),
  });
  const { run_id: id } = (await response.json()) as { run_id: string };
  t.equal(response.status, 202);
  const run = (await (await fetch(`${url}runs/${id}?wait=60`)).json()) as object;
  t.match(run, { status: 'succeeded' });
  t.equal(readFileSync(path.join(root, 'www/site/index.html'), 'utf8'), 'hello');
});
