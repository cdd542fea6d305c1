import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { packWaybill } from '../cli/packed.ts';
import { blocksOf } from '../docs/pasted-blocks.ts';
import { certificatesOfRoot, makeCleanRoot } from '../services/clean-root.ts';
import { freePort } from '../services/free-port.ts';
import { startNpmRegistry } from '../services/npm-registry.ts';

/*
 * Pastes the blocks of the Caddy tutorial, the update and the removal into a clean Debian. Stand-ins:
 * `systemctl.sh` starts the units without systemd, a registry on loopback has the package, both names resolve
 * to this machine, Caddy's own authority signs the certificates, and free ports replace 8080, 80 and 443.
 */

const tutorial = readFileSync('docs/tutorials/daemon-behind-caddy.md', 'utf8');
const update = readFileSync('docs/installation.md', 'utf8').split(/^## Update$/m)[1] ?? '';
const blocks = [tutorial, update].flatMap((page) => blocksOf(page, 'sh'));

const names = ['publish.example.org', 'www.example.org'];
const [port, https, http] = [await freePort(), await freePort(), await freePort()];
const root = await makeCleanRoot(t, 'trixie');
const inRoot = (file: string): string => path.join(root.directory, file);
const registry = await startNpmRegistry(t, packWaybill(t.testdir({})));
const authority = '/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt';

/** Caddy options that come before the sites of a Caddyfile. */
const caddyOptions = `{
	admin off
	https_port ${https}
	http_port ${http}
	local_certs
	skip_install_trust
}
`;

function asHere(block: string): string {
  return block
    .replaceAll('8080', String(port))
    .replace(/(waybill init .*)\n/, `$1\nsed -i s/8080/${port}/ /etc/waybill/waybill.yml\n`)
    .replace(/(<<'CADDY'\n)/, `$1${caddyOptions}`)
    .replaceAll(/https:\/\/((?:publish|www)\.example\.org)/g, `https://$1:${https}`);
}

/** Throws with the whole output if the block fails, because later blocks depend on it. */
async function paste(t: Test, block: string): Promise<string> {
  const trusted = existsSync(inRoot(authority)) ? authority : certificatesOfRoot;
  const env = {
    ...{
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: '/root',
      LC_ALL: 'C.UTF-8',
    },
    ...{ DEBIAN_FRONTEND: 'noninteractive', npm_config_registry: registry },
    ...{ npm_config_cafile: certificatesOfRoot, npm_config_update_notifier: 'false', no_proxy: '127.0.0.1' },
    ...{ CURL_CA_BUNDLE: trusted, NODE_EXTRA_CA_CERTS: trusted },
  };
  const begun = systemClock.monotonic();
  const [command = '', ...through] = root.through;
  const script = `cd /root\n${asHere(block)}`;
  const child = spawn(command, [...through, 'bash', '-e', '-o', 'pipefail', '-c', script], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  // A silent test would be killed, and apt takes long. Its output is not meant for tap.
  const progress = setInterval(
    () => t.comment(`${Math.round((systemClock.monotonic() - begun) / 1000)} s`),
    30_000,
  );
  const [code] = (await once(child, 'close').finally(() => clearInterval(progress))) as [number];
  if (code !== 0) throw new Error(`exit code ${code} of\n${block}\n${output}${logs()}`);
  return output;
}

function logs(): string {
  return ['waybill', 'caddy']
    .map((unit) => inRoot(`var/log/${unit}.log`))
    .filter((file) => existsSync(file))
    .map((file) => `\n${path.basename(file)}:\n${readFileSync(file, 'utf8').slice(-3000)}`)
    .join('');
}

/** From systemd, which waits for a unit of Type=notify. */
async function untilCaddyListens(): Promise<void> {
  for (;;) {
    const socket = connect(https, '127.0.0.1');
    const isThere = await new Promise<boolean>((resolve) =>
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false)),
    );
    socket.destroy();
    if (isThere && existsSync(inRoot(authority))) return;
    await systemClock.sleep(100);
  }
}

t.test('from a new machine to a published page over TLS, an upgrade, and a removal', async (t) => {
  copyFileSync('test/matrix/systemctl.sh', inRoot('usr/local/sbin/systemctl'));
  chmodSync(inRoot('usr/local/sbin/systemctl'), 0o755);
  writeFileSync(inRoot('etc/hosts'), `127.0.0.1 localhost ${names.join(' ')}\n`);
  const before = namedWaybill();
  for (const block of blocks) {
    const output = await paste(t, block);
    if (block.includes('systemctl restart caddy')) await untilCaddyListens();
    if (block.includes('systemctl enable --now waybill')) t.match(output, '"status":"ok"');
    if (block.includes('waybill push')) t.match(output, '<h1>It works.</h1>');
    if (block.includes('--version')) t.match(output, /^\d+\.\d+\.\d+$/m);
  }
  t.ok(blocks.length >= 10, `${blocks.length} blocks`);
  t.same(
    namedWaybill().filter((file) => !before.includes(file)),
    [],
    'no files are left',
  );
  t.notMatch(readFileSync(inRoot('etc/passwd'), 'utf8'), 'waybill');
});

/** Files with its name, except for npm's cache, and the log of the script. */
function namedWaybill(): string[] {
  const args = [root.directory, '-xdev', '-name', '*waybill*', '-not', '-path', '*/.npm/*'];
  const found = execFileSync('find', args, { encoding: 'utf8' }).trim().split('\n');
  return found
    .map((file) => path.relative(root.directory, file))
    .filter((file) => !/^(?:$|var\/log\/)/.test(file));
}
