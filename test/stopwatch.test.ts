import { execFile } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { systemClock } from '../src/core/lib/clock.ts';
import { packWaybill } from './cli/packed.ts';
import { startNginx } from './services/nginx.ts';
import { startNpmRegistry } from './services/npm-registry.ts';
import { startRadosgw } from './services/radosgw.ts';
import { startSshd } from './services/sshd.ts';

/*
 * From an empty directory to a published site in three commands: install, inspect, publish. The times are
 * printed and not asserted.
 */

const run = promisify(execFile);
const registry = await startNpmRegistry(t, packWaybill(t.testdir({})));
const page = '<p>home</p>';

/** An empty directory, except for the site. */
function emptyPlace(t: Pick<Test, 'teardown'>): string {
  // Not below the clone, because Node.js would find its packages.
  const home = realpathSync(mkdtempSync(path.join(tmpdir(), 'waybill-stopwatch-')));
  t.teardown(() => rmSync(home, { recursive: true, force: true }));
  mkdirSync(path.join(home, 'site'));
  writeFileSync(path.join(home, 'site/index.html'), page);
  return home;
}

/** The three commands as users type them. */
async function publishFrom(
  t: Test,
  home: string,
  destination: string,
  more: Record<string, string> = {},
): Promise<void> {
  const own = { npm_config_registry: registry, npm_config_update_notifier: 'false', no_proxy: '127.0.0.1' };
  const env = { PATH: process.env['PATH'] ?? '', HOME: home, ...own, ...more };
  const type = async (program: 'npm' | 'npx', ...args: string[]): Promise<string> => {
    const begun = systemClock.monotonic();
    const { stdout } = await run(program, args, { cwd: home, env, maxBuffer: 64 << 20 });
    const seconds = ((systemClock.monotonic() - begun) / 1000).toFixed(1);
    t.comment(`${seconds} s  ${program} ${args.join(' ')}`);
    return stdout;
  };
  await type('npm', 'install', 'waybill');
  t.match(await type('npx', 'waybill', 'publish', './site', destination, '--dry-run'), /would publish 1/);
  t.match(await type('npx', 'waybill', 'publish', './site', destination), /publish_new=1/);
}

t.test('reads a local path served by nginx', async (t) => {
  const home = emptyPlace(t);
  // nginx runs as another user if the test is root.
  chmodSync(home, 0o755);
  await publishFrom(t, home, './www');
  const port = await startNginx(t, { server: `root ${home}/www;` });
  t.equal(await (await fetch(`http://127.0.0.1:${port}/`)).text(), page);
});

t.test('reads from an SFTP server', async (t) => {
  const server = await startSshd(t);
  const home = emptyPlace(t);
  mkdirSync(path.join(home, '.ssh'), { mode: 0o700 });
  writeFileSync(path.join(home, '.ssh/id_ed25519'), readFileSync(server.clientKeyFile), { mode: 0o600 });
  const { user, host, port, root } = server;
  await publishFrom(t, home, `sftp://${user}@${host}:${port}${root}/www`);
  t.equal(readFileSync(path.join(root, 'www/index.html'), 'utf8'), page);
});

t.test('reads from a bucket', async (t) => {
  const server = await startRadosgw(t);
  const bucket = await server.newBucket();
  const { accessKeyId, secretAccessKey } = server.user;
  const destination = `s3://${bucket}/site?endpoint=${encodeURIComponent(server.endpoint)}`;
  await publishFrom(t, emptyPlace(t), destination, {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_REGION: 'us-east-1',
  });
  const found = await server.client().send(new GetObjectCommand({ Bucket: bucket, Key: 'site/index.html' }));
  t.equal(await found.Body?.transformToString(), page);
});
