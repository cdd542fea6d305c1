import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { document, errorDocument, programForAll, waybill } from './process.ts';

/** Directories that another user could change: some commands reject them, and others warn. */

const options = { skip: process.geteuid?.() === 0 ? false : 'only root can give files to other users' };
/** No account has this number. */
const producer = 54_321;

const config = `pipelines:
  - id: site
    source: { backend: local, path: site, manifest: auto }
    destinations: [{ id: web, backend: local, path: public, mapping: fixed }]
`;

/** A source that another user owns, a destination that every user may write to, and their configuration. */
function layOut(t: Test): string {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-unsafe-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  for (const name of ['site', 'public']) mkdirSync(path.join(place, name));
  writeFileSync(path.join(place, 'site/page.html'), '<p>page</p>');
  writeFileSync(path.join(place, 'c.yml'), config);
  chmodSync(place, 0o755);
  chownSync(path.join(place, 'site'), producer, producer);
  chmodSync(path.join(place, 'public'), 0o777);
  return place;
}

t.test('run and serve reject unsafe directories until the hint is followed', options, (t) => {
  const place = layOut(t);
  const served = waybill(['serve', '--config', 'c.yml'], { cwd: place });
  t.equal(served.status, 2);
  t.match(served.stderr, `${place}/public can be written by every user (mode 0777)`);
  const args = ['run', '--config', 'c.yml', '--format', 'json'];
  const refused = waybill(args, { cwd: place });
  t.equal(refused.status, 2);
  const { error } = errorDocument(t, refused) as { error: { code: string; hint: string } };
  t.equal(error.code, 'unsafe_permissions');
  execFileSync('sh', ['-c', error.hint.split(', or ')[0] ?? 'false']);
  const ended = waybill(args, { cwd: place });
  t.equal(ended.status, 0);
  t.same((document(t, ended) as { warnings: unknown[] }).warnings, []);
  t.end();
});

t.test('config check and init warn', options, (t) => {
  const place = layOut(t);
  const checked = waybill(['config', 'check', '--config', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(checked.status, 0);
  const message = `${place}/public can be written by every user (mode 0777)`;
  t.match((document(t, checked) as { warnings: unknown[] }).warnings, [
    { code: 'unsafe_permissions', line: 3 },
    { code: 'unsafe_permissions', line: 4, message: `${message}, and will be refused` },
  ]);
  const script = 'umask 000 && exec "$0" dist/cli/main.js init directory -o "$1" --format json';
  const file = path.join(place, 'new.yml');
  const made = spawnSync('sh', ['-c', script, process.execPath, file], { encoding: 'utf8' });
  t.match((document(t, made) as { warnings: unknown[] }).warnings, [{ code: 'unsafe_permissions', message }]);
  t.equal(lstatSync(file).mode & 0o777, 0o644, 'with any umask');
  t.end();
});

t.test('publish only warns about the directories of its command line', options, (t) => {
  const place = layOut(t);
  const published = waybill(['publish', './site', './public'], { cwd: place });
  t.equal(published.status, 0);
  t.match(published.stderr, `warning  ${place}/site belongs to user ${producer}, and waybill runs as root`);
  t.match(published.stderr, `warning  ${place}/public can be written by every user (mode 0777)`);
  t.end();
});

t.test(
  'a user without a name, with umask 002 and a group of one, publishes without a warning',
  options,
  (t) => {
    const place = layOut(t);
    chownSync(place, producer, producer);
    const ids = ['--reuid', String(producer), '--regid', String(producer), '--clear-groups'];
    const script =
      'umask 002 && mkdir home && cp -r site home && exec "$0" "$1" publish home/site home/public --index never';
    const { status, stderr } = spawnSync(
      'setpriv',
      [...ids, 'sh', '-ec', script, process.execPath, programForAll(t)],
      { cwd: place, encoding: 'utf8', env: { PATH: process.env['PATH'] ?? '', HOME: place } },
    );
    t.equal(status, 0);
    t.notMatch(stderr, /warning|error/);
    t.equal(lstatSync(path.join(place, 'home/public')).uid, producer);
    t.end();
  },
);
