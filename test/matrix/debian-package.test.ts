import { execFile } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { certificatesOfRoot, makeCleanRoot } from '../services/clean-root.ts';
import { ensureInstalled } from '../services/debian.ts';

/*
 * The Debian package in an otherwise empty Debian 13. systemd does not run there, so the package scripts
 * enable and restart nothing.
 */

t.setTimeout(0);
const run = promisify(execFile);
await ensureInstalled('lintian');

async function makePackage(directory: string, version?: string): Promise<string> {
  const args = [
    'scripts/package/deb.mjs',
    directory,
    ...(version === undefined ? [] : ['--version', version]),
  ];
  const env = { ...process.env, SOURCE_DATE_EPOCH: '1790000000', TMPDIR: directory };
  const { stdout } = await run('sh', ['-c', 'umask 077 && exec "$@"', 'sh', process.execPath, ...args], {
    env,
  });
  return stdout.trim();
}

const { version, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  version: string;
  peerDependencies: { lmdb: string };
};
const { lmdb } = peerDependencies;
const packagesOfLmdb = [
  ...['lmdb', '@lmdb', '@harperfast', 'msgpackr', 'ordered-binary', 'weak-lru-cache'],
  ...['node-gyp-build-optional-packages', 'detect-libc'],
];
const place = t.testdir({ first: {}, second: {}, temporary: {} });
const file = await makePackage(path.join(place, 'first'));

t.test('builds are reproducible', async (t) => {
  t.equal(path.basename(file), `waybill_${version}_all.deb`);
  const again = await makePackage(path.join(place, 'second'));
  t.ok(readFileSync(file).equals(readFileSync(again)));
});

t.test('lintian reports no error and no warning', async (t) => {
  // lintian leaves directories in TMPDIR.
  const env = { ...process.env, TMPDIR: path.join(place, 'temporary') };
  const { stdout } = await run('lintian', ['--allow-root', '--fail-on', 'error,warning', file], { env });
  t.equal(stdout, '');
});

t.test('installs, upgrades, removes and purges', async (t) => {
  const root = await makeCleanRoot(t, 'trixie');
  const at = (name: string): string => path.join(root.directory, name);
  const [command = '', ...through] = root.through;
  const inRoot = async (script: string): Promise<string> => {
    const env = {
      ...{ PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' },
      ...{ DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8', CURL_CA_BUNDLE: certificatesOfRoot },
    };
    const args = [...through, 'bash', '-e', '-c', `cd /root\n${script}`];
    const { stdout, stderr } = await run(command, args, { env, maxBuffer: 64 << 20 });
    return stdout + stderr;
  };
  const newer = await makePackage(place, '99.0.0');
  for (const [from, to] of [
    [file, 'waybill.deb'],
    [newer, 'newer.deb'],
  ] as const)
    copyFileSync(from, at(`root/${to}`));

  await t.test('install', async (t) => {
    await inRoot('apt update -qq && apt install -qq --yes --no-install-recommends ./waybill.deb');
    t.match(await inRoot('waybill --version'), version);
    t.match(await inRoot('waybill-weather --help'), /usage|Usage/);
    t.match(readFileSync(at('etc/passwd'), 'utf8'), /^waybill:.*:\/var\/lib\/waybill:/m);
    t.equal(statSync(at('etc/waybill/secrets')).mode & 0o777, 0o700);
    t.match(await inRoot('waybill config check --config /etc/waybill/waybill.yml'), /there are no pipelines/);
    const enabled = await inRoot('find /etc/systemd -name "waybill*"');
    t.equal(enabled, '', 'no service is enabled');
    t.match(
      await inRoot('. /usr/share/bash-completion/completions/waybill && complete -p waybill'),
      '-F _waybill',
    );
    await inRoot('mkdir talk && echo hello >talk/talk.txt && waybill publish talk /srv/public');
    t.equal(readFileSync(at('srv/public/talk.txt'), 'utf8'), 'hello\n');
  });

  await t.test('the steps of docs/installation.md work', async (t) => {
    const [, section = ''] =
      /^## As a Debian package$(.*?)^## /ms.exec(readFileSync('docs/installation.md', 'utf8')) ?? [];
    const blocks = [...section.matchAll(/^```\n(.*?)^```$/gms)].map(([, text = '']) => text);
    const [replace = ''] = blocks.filter((block) => block.includes('waybill init'));
    await inRoot(replace);
    // npm and its dependencies are many Debian packages; those of the clone are equivalent.
    t.ok(blocks.some((block) => block.includes(`--prefix /usr/lib/waybill lmdb@${lmdb}\n`)));
    for (const name of packagesOfLmdb)
      cpSync(`node_modules/${name}`, at(`usr/lib/waybill/node_modules/${name}`), { recursive: true });
    // With `CREDENTIALS_DIRECTORY`, as in the tutorial that the page links for the tokens.
    const directory = '/tmp/secrets';
    await inRoot(`mkdir -p ${directory}
      for name in WAYBILL_TOKEN WAYBILL_METRICS_TOKEN; do head -c 24 /dev/urandom | base64 > ${directory}/$name; done`);
    const check = 'waybill config check --config /etc/waybill/waybill.yml';
    t.match(await inRoot(`CREDENTIALS_DIRECTORY=${directory} ${check}`), /^valid .*1 pipeline$/m);
    await inRoot(`rm -r ${directory}`);
    // Without a network, it only creates links.
    await inRoot('systemctl enable waybill.service waybill-worker.service');
    await inRoot('rm /etc/systemd/system/waybill.service');
  });

  const own = {
    'etc/waybill/waybill.yml': 'pipelines: [] # mine\n',
    'etc/waybill/secrets/TOKEN': 'secret\n',
  };
  const state = { 'var/lib/waybill/public/page.html': '<p>\n' };
  const kept = (): boolean =>
    Object.entries({ ...own, ...state }).every(
      ([name, text]) => existsSync(at(name)) && readFileSync(at(name), 'utf8') === text,
    );

  await t.test('upgrade', async (t) => {
    mkdirSync(at('var/lib/waybill/public'), { recursive: true });
    for (const [name, text] of Object.entries({ ...own, ...state })) writeFileSync(at(name), text);
    t.match(await inRoot('dpkg --install newer.deb'), 'Setting up waybill (99.0.0)');
    t.ok(kept());
    t.ok(existsSync(at('usr/lib/waybill/node_modules/lmdb')));
  });

  await t.test('remove', async (t) => {
    t.notMatch(await inRoot('dpkg --remove waybill'), /not empty so not removed/);
    t.ok(kept());
    for (const name of ['usr/bin/waybill', 'usr/lib/waybill', 'usr/lib/systemd/system/waybill.service'])
      t.notOk(existsSync(at(name)), name);
  });

  await t.test('purge', async (t) => {
    t.notMatch(await inRoot('dpkg --purge waybill'), /not empty/);
    t.equal(await inRoot('find / -xdev -name "*waybill*" -not -path "/root/*" -not -path "/proc/*"'), '');
    t.match(readFileSync(at('etc/passwd'), 'utf8'), /^waybill:/m, 'the number of the user is not reused');
  });
});
