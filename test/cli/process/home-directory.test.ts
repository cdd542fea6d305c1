import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { programForAll } from '../process.ts';

const options = { skip: process.geteuid?.() === 0 ? false : 'only root can start a process of another user' };
/** No account has this number. */
const unknown = 54_321;

t.test('a user without an account and without HOME can use every configuration', options, (t) => {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-homeless-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  mkdirSync(path.join(place, 'site'));
  writeFileSync(path.join(place, 'site/page.html'), '<p>page</p>');
  writeFileSync(
    path.join(place, 'c.yml'),
    `pipelines:
  - id: site
    source: { backend: local, path: site, manifest: auto }
    destinations: [{ id: web, backend: local, path: public, mapping: fixed }]
`,
  );
  for (const name of ['.', 'site', 'site/page.html', 'c.yml'])
    chownSync(path.join(place, name), unknown, unknown);
  chmodSync(place, 0o755);
  const ids = { uid: unknown, gid: unknown };
  const env = { PATH: process.env['PATH'] ?? '' };
  const file = programForAll(t);
  const run = (...args: string[]): { status: number | null; stderr: string } =>
    spawnSync(process.execPath, [file, ...args], { ...ids, env, cwd: place, encoding: 'utf8' });
  for (const args of [
    ['config', 'check', '--config', 'c.yml'],
    ['run', '--config', 'c.yml'],
    ['verify', '--config', 'c.yml'],
  ]) {
    const { status, stderr } = run(...args);
    t.equal(status, 0, `${args.join(' ')}: ${stderr}`);
    t.notMatch(stderr, /homedir|SystemError/);
  }
  t.ok(existsSync(path.join(place, 'public/page.html')));
  t.end();
});
