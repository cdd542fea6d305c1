import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { program, waybill } from '../cli/process.ts';
import { makeNodeImage, startBuildah } from '../services/buildah.ts';
import { ensureInstalled } from '../services/debian.ts';
import { freePort } from '../services/free-port.ts';
import { withOwnMounts } from '../services/mount-namespace.ts';

/*
 * Builds the image from the published Dockerfile on a base from this test instead of the pinned one. Runs
 * its programs in its read-only root file system, as its user.
 */

const run = promisify(execFile);
const token = 'a-token-of-this-test-alone';
const image = 'localhost/waybill-test';
const base = 'localhost/waybill-test-base';

const dockerfile = readFileSync('Dockerfile', 'utf8');
const [, release = ''] = /^ARG NODE_IMAGE=\S+node:([\d.]+)-/m.exec(dockerfile) ?? [];

interface ImageConfig {
  User: string;
  Env: string[];
  Entrypoint: string[];
  Cmd: string[];
  Labels: Record<string, string>;
  Volumes: Record<string, unknown>;
  Healthcheck: { Test: string[] };
  StopSignal: string;
}

await ensureInstalled('buildah');
const buildah = await startBuildah(t);

t.test('the published Dockerfile builds, and the image has its labels', async (t) => {
  await makeNodeImage(t, buildah, { name: base, release });
  const args = ['--build-arg', `NODE_IMAGE=${base}`, '--build-arg', 'REVISION=abc'];
  // A step may be silent for minutes, which would end the test.
  const progress = setInterval(() => t.comment('building'), 30_000);
  await buildah('bud', '--format', 'docker', '--layers=false', ...args, '--tag', image, '.').finally(() =>
    clearInterval(progress),
  );
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  t.match(await imageConfig(), {
    User: '1000:1000',
    Entrypoint: ['waybill'],
    StopSignal: 'SIGTERM',
    Volumes: { '/var/lib/waybill': {} },
    Labels: {
      'org.opencontainers.image.title': 'waybill',
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.revision': 'abc',
    },
  });
});

t.test('it accepts and publishes an upload, and writes nowhere else', async (t) => {
  const container = await buildah('from', image);
  const rootOfImage = await buildah('mount', container);
  const place = t.testdir({ state: {}, talk: { 'page.html': 'x' } });
  chownSync(path.join(place, 'state'), 1000, 1000);
  const port = await freePort();
  writeFileSync(path.join(place, 'waybill.yml'), configuration(port));
  const through = await keepReadOnly(t, rootOfImage, place);
  const config = await imageConfig();
  const env = [...config.Env, `WAYBILL_TOKEN=${token}`, `HEALTHCHECK_URL=http://127.0.0.1:${port}/healthz`];
  const asUser = [
    'setpriv',
    '--reuid=1000',
    '--regid=1000',
    '--clear-groups',
    '--no-new-privs',
    '--inh-caps=-all',
  ];
  const inside = (command: readonly string[]): [string, string[]] => {
    const [first = '', ...rest] = through;
    return [first, [...rest, ...asUser, 'env', '-i', ...env, ...command]];
  };
  const daemon = spawn(...inside([...config.Entrypoint, ...config.Cmd]), {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  daemon.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const url = `http://127.0.0.1:${port}`;
  while (daemon.exitCode === null && (await fetch(`${url}/healthz`).catch(() => null))?.ok !== true)
    await systemClock.sleep(100);
  t.equal(daemon.exitCode, null, said);
  const [, ...health] = config.Healthcheck.Test;
  await t.resolves(run(...inside(health)), 'its health check passes');
  const push = [program, 'push', 'talk', '--name', 'talk', '--to', url, '--pipeline', 'uploads'];
  await run(process.execPath, push, { cwd: place, env: { ...process.env, WAYBILL_TOKEN: token } });
  t.equal(readFileSync(path.join(place, 'state/public/talk/page.html'), 'utf8'), 'x');
  for (const file of ['/app/x', '/etc/waybill/x', '/usr/local/bin/x', '/x'])
    await t.rejects(run(...inside(['touch', file])), { message: /Read-only|Permission denied/ }, file);
  const { stdout: uid } = await run(...inside(['id', '-u']));
  t.equal(uid.trim(), '1000');
  await run(...inside(['sh', '-c', 'kill -TERM $(pidof node)'])).catch(() => daemon.kill('SIGTERM'));
  if (daemon.exitCode === null) await once(daemon, 'exit');
  t.equal(daemon.exitCode, 0, said);
  const away = await run(...inside(health)).catch((error: unknown) => error as { code: number });
  t.match(away, { code: 1 }, 'and fails when the daemon is unreachable');
});

async function imageConfig(): Promise<ImageConfig> {
  const text = await buildah('inspect', '--type', 'image', image);
  return (JSON.parse(text) as { Docker: { config: ImageConfig } }).Docker.config;
}

/**
 * The command prefix that runs a command with the image as root directory, with its volume, and read-only.
 */
async function keepReadOnly(
  t: { teardown: (end: () => unknown) => unknown },
  rootOfImage: string,
  place: string,
): Promise<string[]> {
  const script = `
cd "$2" && touch "$1/etc/waybill/waybill.yml" &&
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
mount -t tmpfs tmpfs "$1/tmp" && mount --bind state "$1/var/lib/waybill" &&
mount --bind waybill.yml "$1/etc/waybill/waybill.yml" || exit 1
echo ready
cat > /dev/null
`;
  const [unshare = '', ...options] = withOwnMounts('--pid', '--fork', '--kill-child');
  const child = spawn(unshare, [...options, 'sh', '-c', script, 'sh', rootOfImage, place], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  await Promise.race([once(child.stdout, 'data'), ended.then(() => Promise.reject(new Error('no mounts')))]);
  const [first = ''] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
  // Entering a mount namespace leaves a chroot of the test itself; --root returns to it.
  return ['nsenter', '--target', first, '--mount', '--pid', '--root', 'chroot', rootOfImage];
}

/** As written by `waybill init`, with the paths of the container. */
function configuration(port: number): string {
  const place = t.testdir({});
  mkdirSync(place, { recursive: true });
  waybill(['init', 'uploads', '-o', 'c.yml'], { cwd: place });
  return readFileSync(path.join(place, 'c.yml'), 'utf8')
    .replace('127.0.0.1:8080', `0.0.0.0:${port}`)
    .replaceAll('./state', '/var/lib/waybill')
    .replaceAll('./public', '/var/lib/waybill/public');
}
