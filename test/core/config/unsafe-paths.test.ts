import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { type PathScope, requireSafePaths } from '../../../src/core/config/unsafe-paths.ts';
import { type Finding, WaybillError } from '../../../src/core/lib/errors.ts';

/** Which paths of a configuration are rejected, with real owners and modes. */

const options = { skip: process.geteuid?.() === 0 ? false : 'only root can give files to other users' };
/** No account has this number. */
const producer = 54_321;
/** `/etc/passwd` of Debian has a user with this primary group. */
const webServer = 33;

const text = `secrets: { directory: secrets }
upload_tokens: [{ id: ci, value_env: TOKEN, pipelines: [uploads] }]
server:
  staging: { directory: state/staging }
  queue: { driver: embedded, directory: state/queue }
pipelines:
  - id: site
    source: { backend: local, path: site }
    destinations: [{ id: web, backend: local, path: public }]
  - id: uploads
    source: { backend: http_upload }
    destinations: [{ id: sftp, backend: sftp, host: h, user: u, path: /p, ssh_key_file: key }]
`;

/** All files and directories of the configuration, which only root can change. */
function layOut(t: Test): string {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-unsafe-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  chmodSync(place, 0o755);
  for (const name of ['site', 'public', 'secrets', 'state', 'state/staging', 'state/queue']) {
    mkdirSync(path.join(place, name));
    chmodSync(path.join(place, name), 0o755);
  }
  for (const name of ['key', 'secrets/TOKEN', 'state/queue/data.mdb']) {
    writeFileSync(path.join(place, name), '');
    chmodSync(path.join(place, name), 0o600);
  }
  return place;
}

function warnings(place: string, scope: PathScope = { isDaemon: true }, more = ''): Finding[] {
  const file = path.join(place, 'c.yml');
  const loaded = parseConfig(Buffer.from(text + more), file, { home: '/root' });
  return requireSafePaths(loaded, scope);
}

function refusal(place: string, scope?: PathScope, more?: string): WaybillError | null {
  try {
    warnings(place, scope, more);
    return null;
  } catch (error) {
    if (error instanceof WaybillError) return error;
    throw error;
  }
}

const everything: [name: string, setting: string][] = [
  ['site', 'pipelines[0].source.path'],
  ['public', 'pipelines[0].destinations[0].path'],
  ['key', 'pipelines[1].destinations[0].ssh_key_file'],
  ['secrets', 'secrets.directory'],
  ['secrets/TOKEN', 'secrets.directory'],
  ['state/staging', 'server.staging.directory'],
  ['state/queue', 'server.queue.directory'],
  ['state/queue/data.mdb', 'server.queue.directory'],
];

t.test('accepts paths that only root can change', options, (t) => {
  t.same(warnings(layOut(t)), []);
  t.end();
});

for (const [name, setting] of everything)
  t.test(`rejects ${name} if another user owns it, or every user can write to it`, options, (t) => {
    const place = layOut(t);
    const file = path.join(place, name);
    chownSync(file, producer, 0);
    const foreign = refusal(place);
    t.match(foreign, {
      code: 'unsafe_permissions',
      hint: `chown root ${file}, or add the directory to trusted_directories`,
    });
    t.match(foreign?.message, `${setting}: ${file} belongs to user ${producer}, and waybill runs as root`);
    chownSync(file, 0, 0);
    chmodSync(file, 0o666);
    t.match(refusal(place), {
      message: `${setting}: ${file} can be written by every user (mode 0666)`,
      hint: `chmod go-w ${file}, or add the directory to trusted_directories`,
    });
    t.equal(refusal(place, undefined, `trusted_directories: [${name}]`), null);
    t.end();
  });

t.test('rejects a parent directory that every user can write to', options, (t) => {
  const place = layOut(t);
  chmodSync(path.join(place, 'state'), 0o777);
  const found = refusal(place);
  t.match(
    found?.message,
    `${place}/state, which leads to ${place}/state/staging, can be written by every user`,
  );
  t.match(found?.hint, `chmod go-w ${place}/state, or`);
  t.equal(found?.findings.length, 4, 'staging, the queue, and its files');
  t.end();
});

t.test(
  'warns about a group-writable published directory, and rejects a group-writable state directory',
  options,
  (t) => {
    const place = layOut(t);
    for (const name of ['site', 'public', 'state/staging']) {
      chmodSync(path.join(place, name), 0o775);
      chownSync(path.join(place, name), 0, webServer);
    }
    const severities = refusal(place)?.findings.map(({ severity, pointer }) => [severity, pointer]);
    t.same(severities, [
      ['warning', 'pipelines[0].source.path'],
      ['warning', 'pipelines[0].destinations[0].path'],
      ['error', 'server.staging.directory'],
    ]);
    chownSync(path.join(place, 'state/staging'), 0, producer);
    t.match(warnings(place), [{ code: 'unsafe_permissions', line: 8 }, { line: 9 }]);
    t.end();
  },
);

t.test(
  'checks the paths of the selected pipelines, and staging and queue only for the daemon',
  options,
  (t) => {
    const place = layOut(t);
    for (const name of ['key', 'state/staging']) chmodSync(path.join(place, name), 0o777);
    t.same(warnings(place, { pipelineIds: ['site'] }), []);
    t.match(refusal(place, {}), { findings: [{ pointer: 'pipelines[1].destinations[0].ssh_key_file' }] });
    t.end();
  },
);

t.test('unsafe directories of the command line are warnings, an unsafe key is rejected', options, (t) => {
  const place = layOut(t);
  for (const name of ['site', 'public']) chmodSync(path.join(place, name), 0o777);
  t.match(warnings(place, { areDirectoriesNamed: true }), [{ severity: 'warning', file: null }, {}]);
  chmodSync(path.join(place, 'key'), 0o666);
  const found = refusal(place, { areDirectoriesNamed: true });
  t.equal(found?.message, `${place}/key can be written by every user (mode 0666)`);
  t.equal(found?.hint, `chmod go-w ${place}/key`);
  t.end();
});
