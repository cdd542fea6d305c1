import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { noise } from '../fixtures/noise.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { startDaemon } from './daemon.ts';
import { program, waybill } from './process.ts';

const token = 'a-token-of-all-producers';
const size = 20 << 20;

t.test('a push continues an upload whose client was killed', async (t) => {
  const place = t.testdir({
    'c.yml': [
      'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site]}]',
      'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}',
      'pipelines:',
      '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
    ].join('\n'),
    site: {},
  });
  writeFileSync(path.join(place, 'site/data.bin'), noise(size));
  const { port } = await startDaemon(t, place, { TOKEN_CI: token });
  const line = await startCuttingProxy(t, port);
  line.slowTo(10 << 20);
  const args = ['push', 'site', '--to', `http://127.0.0.1:${line.port}`, '-p', 'site', '--name', 'n'];
  const env = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', WAYBILL_TOKEN: token };
  const push = (): ReturnType<typeof spawn> =>
    spawn(process.execPath, [program, ...args], { cwd: place, env, stdio: 'ignore' });
  const killed = push();
  while (line.passed('to the server') < size / 2) await new Promise((resolve) => setTimeout(resolve, 10));
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  const before = line.passed('to the server');
  line.slowTo(Infinity);
  const [code] = (await once(push(), 'exit')) as [number];
  t.equal(code, 0);
  const after = line.passed('to the server') - before;
  t.ok(after < size - before + (1 << 20), `${before} bytes before, and ${after} after`);
  t.ok(readFileSync(path.join(place, 'web/n/data.bin')).equals(noise(size)));

  const wrong = waybill([...args, '--chunk-size', '1KiB'], { cwd: place, env: { WAYBILL_TOKEN: token } });
  t.match(wrong, { status: 2, stderr: /--chunk-size: "1KiB" is not a size from 64KiB/ });
});
