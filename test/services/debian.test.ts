import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { deadPort } from '../core/notify/receiver.ts';
import { aptInstall, type AptSettings } from './apt.ts';
import { missingPackages, pathOf } from './debian.ts';
import { needs, needsOf } from './needs.ts';

/** The real apt-get and dpkg on a separate system below a directory, with a single package. */
interface System {
  root: string;
  settings: AptSettings;
  /** The lock files of apt. */
  lock: (file: string) => Promise<ChildProcess>;
}

const probe = 'waybill-test-probe';

const needsApt = { skip: pathOf('apt-get') === undefined ? 'this machine has no apt-get' : false };

for (const file of ['var/lib/dpkg/lock-frontend', 'var/lib/apt/lists/lock', 'var/cache/apt/archives/lock']) {
  t.test(`reports an apt that stays locked in one line, with the holder: ${file}`, needsApt, async (t) => {
    const { settings, lock } = newSystem(t);
    const holder = await lock(file);
    t.equal(
      await aptInstall([probe], { ...settings, lockMs: 300 }),
      `apt has been locked by process ${holder.pid} (perl) for more than 0.3 seconds`,
    );
  });

  t.test(`waits for a temporary lock of apt: ${file}`, needsApt, async (t) => {
    const { root, settings, lock } = newSystem(t);
    const holder = await lock(file);
    let refusals = 0;
    const onLocked = (): void => {
      refusals += 1;
      if (refusals === 2) holder.kill();
    };
    t.equal(await aptInstall([probe], { ...settings, lockMs: 60_000, onLocked }), undefined);
    t.equal(holder.killed, true, 'it found the lock twice');
    t.ok(existsSync(path.join(root, 'installed', probe)));
  });
}

t.test('concurrent installations run one after another', needsApt, async (t) => {
  const { root, settings } = newSystem(t);
  const all = await Promise.all([1, 2, 3].map(async () => aptInstall([probe], settings)));
  t.same(all, [undefined, undefined, undefined]);
  t.ok(existsSync(path.join(root, 'installed', probe)));
});

t.test('reports a missing network', needsApt, async (t) => {
  const { settings } = newSystem(t, `http://127.0.0.1:${await deadPort()}/`);
  t.match(
    await aptInstall([probe], settings),
    /^no package server can be reached \(Could not connect to .*\)$/,
  );
});

t.test('a package server that never answers is abandoned after a timeout', needsApt, async (t) => {
  const server = (await import('node:net')).createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets = new Set<import('node:net').Socket>();
  server.on('connection', (socket) => sockets.add(socket.on('error', () => undefined)));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as import('node:net').AddressInfo;
  const { settings } = newSystem(t, `http://127.0.0.1:${port}/`);
  t.equal(
    await aptInstall([probe], { ...settings, networkMs: 400 }),
    'updating the package lists took more than 0.4 seconds',
  );
});

t.test('names an unknown package', needsApt, async (t) => {
  const { settings } = newSystem(t);
  t.equal(await aptInstall(['waybill-none'], settings), 'apt says "Unable to locate package waybill-none"');
});

t.test('counts packages of a missing program as missing', async (t) => {
  const before = { ...process.env };
  t.teardown(() => Object.assign(process.env, before));
  process.env['PATH'] = t.testdir();
  t.same(missingPackages(['xmllint', 'xmllint', 'rclone']), ['libxml2-utils', 'rclone']);
});

t.test('only the table of needs lists packages, and only one file calls apt', async (t) => {
  const sources = ['test', 'scripts', '.ci']
    .flatMap((directory) => filesBelow(directory))
    .filter((name) => /\.(ts|mjs)$|^\.ci\/run$/.test(name));
  t.ok(sources.length > 100);
  const calls = /apt-get|command -v|'which'/;
  const allowed = ['apt.ts', 'debian.ts', 'debian.test.ts', 'needs.ts'].map(
    (name) => `test/services/${name}`,
  );
  for (const name of sources.filter((each) => !allowed.includes(each)))
    if (calls.test(readFileSync(name, 'utf8'))) t.fail(`${name} searches for programs itself`);
  const packages = Object.values(needs).flatMap((need) => [...need.packages]);
  t.equal(new Set(packages).size, packages.length, 'each package is listed once');
  t.same(needsOf(sources), Object.keys(needs).sort(), 'each need is used');
});

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' }).map((name) =>
    path.join(directory, name),
  );
}

function newSystem(t: Test, source?: string): System {
  const root = t.testdir({
    'etc/apt': { 'apt.conf.d': {}, 'preferences.d': {}, 'sources.list.d': {} },
    'var/lib/dpkg': { status: '' },
    'var/lib/apt/lists/partial': {},
    'var/cache/apt/archives/partial': {},
    'var/log/apt': {},
    pkg: { DEBIAN: {}, installed: { [probe]: 'here' } },
  });
  const control = `Package: ${probe}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: probe\n`;
  writeFileSync(path.join(root, 'pkg/DEBIAN/control'), control);
  mkdirSync(path.join(root, 'repository'));
  const file = path.join(root, 'repository/probe.deb');
  execFileSync('dpkg-deb', ['-b', path.join(root, 'pkg'), file], { stdio: 'ignore' });
  const digest = createHash('sha256').update(readFileSync(file)).digest('hex');
  writeFileSync(
    path.join(root, 'repository/Packages'),
    `${control}Filename: ./probe.deb\nSize: ${statSync(file).size}\nSHA256: ${digest}\n`,
  );
  const from = source ?? `file:${root}/repository`;
  writeFileSync(path.join(root, 'etc/apt/sources.list'), `deb [trusted=yes] ${from} ./\n`);
  const config = path.join(root, 'apt.conf');
  writeFileSync(
    config,
    `Dir "${root}";
Dir::Bin::dpkg "/usr/bin/dpkg";
Dir::State::status "${root}/var/lib/dpkg/status";
APT::Sandbox::User "";
DPkg::Options { "--root=${root}"; "--force-not-root"; "--force-bad-path"; "--log=/dev/null"; };
`,
  );
  const settings = { env: { APT_CONFIG: config }, lockFile: path.join(root, 'turn') };
  return { root, settings, lock: (name) => hold(t, path.join(root, name)) };
}

/** As apt locks, with fcntl, which Node.js does not support. */
async function hold(t: Test, file: string): Promise<ChildProcess> {
  const script = `use Fcntl qw(:DEFAULT F_SETLK F_WRLCK);
open(my $file, '>>', $ARGV[0]) or die;
my $lock = pack('s s x4 l! l! i x4', F_WRLCK, 0, 0, 0, 0);
fcntl($file, F_SETLK, $lock) or die;
$| = 1; print "held\\n"; sleep;`;
  const child = spawn('perl', ['-e', script, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await once(child.stdout, 'data');
  return child;
}
