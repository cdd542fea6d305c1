import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { rclone } from '../services/rclone.ts';
import { startSshd } from '../services/sshd.ts';
import { document, manifest, waybill } from './process.ts';

/**
 * Publishes the same bundle from each kind of source to each kind of destination, byte for byte. Checks the
 * result with common tools.
 */

const kinds = ['local', 'sftp', 's3'] as const;
type Kind = (typeof kinds)[number];

const sshd = await startSshd(t);
const s3 = await startRadosgw(t);
const bucket = await s3.newBucket();
const env = { MAPS_KEY: s3.user.accessKeyId, MAPS_SECRET: s3.user.secretAccessKey };

const large = Buffer.alloc((9 << 20) + 5, 'a map of the whole world ');
const place = t.testdir({
  source: {
    'session 42': {
      'manifest.json': manifest(['notes/readme.txt', 'maps/größe+1%.json', 'maps/world.bin', 'empty']),
      notes: { 'readme.txt': 'read me\n' },
      maps: { 'größe+1%.json': '{"size": 1}', 'world.bin': large },
      empty: '',
    },
  },
});
const bundle = path.join(place, 'source/session 42');

const sftpPlace = (name: string): string =>
  `backend: sftp, host: ${sshd.host}, port: ${sshd.port}, user: ${sshd.user}, path: "${sshd.root}/${name}", ssh_key_file: "${sshd.clientKeyFile}", known_hosts_file: "${sshd.knownHostsFile}"`;
const s3Place = (name: string): string =>
  `backend: s3, endpoint: "${s3.endpoint}", bucket: ${bucket}, prefix: ${name}/, access_key_id_env: MAPS_KEY, secret_access_key_env: MAPS_SECRET`;
const placeOf: Record<Kind, (name: string) => string> = {
  local: (name) => `backend: local, path: "${place}/${name}"`,
  sftp: sftpPlace,
  s3: s3Place,
};

cpSync(path.join(place, 'source'), path.join(sshd.root, 'source'), { recursive: true });
await rclone(s3, ['copy', path.join(place, 'source'), `s3:${bucket}/source`]);

const config = path.join(place, 'c.yml');
const pipelines = kinds.map((from) =>
  [
    `  - id: from-${from}`,
    `    source: {${placeOf[from]('source')}}`,
    '    destinations:',
    ...kinds.map(
      (to) => `      - {id: to-${to}, ${placeOf[to](`${from}-to-${to}`)}, outputs: {checksums: true}}`,
    ),
  ].join('\n'),
);
writeFileSync(config, `pipelines:\n${pipelines.join('\n')}\n`);

t.test('every pair of backends publishes, and a second run changes nothing', async (t) => {
  const dry = waybill(['run', '-c', config, '--dry-run'], { env });
  t.equal(dry.status, 0, dry.stdout + dry.stderr);
  t.notOk(existsSync(sshd.knownHostsFile), 'a dry run stores no host key');
  t.same(readdirSync(sshd.root), ['source'], 'and writes nothing');
  for (const action of ['publish_new', 'skip_same']) {
    const ended = waybill(['run', '-c', config, '--format', 'json'], { env });
    t.equal(ended.status, 0, ended.stderr);
    t.match(document(t, ended), { counters: { [action]: 9 } });
  }
  t.match(
    readFileSync(sshd.knownHostsFile, 'utf8'),
    /^\[127\.0\.0\.1\]:\d+ ssh-ed25519 [^\n]+\n$/,
    'one line, one host',
  );
});

for (const from of kinds)
  for (const to of kinds)
    t.test(`${from} → ${to}: byte for byte, by sha256sum and by comparison`, async (t) => {
      const published = await fetched(t, `${from}-to-${to}`, to);
      const directory = path.join(published, 'session 42');
      execFileSync('sha256sum', ['--quiet', '-c', 'SHA256SUMS'], { cwd: directory });
      const files = readdirSync(bundle, { recursive: true, encoding: 'utf8' }).filter(
        (name) => name !== 'manifest.json' && statSync(path.join(bundle, name)).isFile(),
      );
      t.equal(files.length, 4);
      for (const name of files)
        t.ok(readFileSync(path.join(directory, name)).equals(readFileSync(path.join(bundle, name))), name);
      t.same(
        readdirSync(directory).filter((name) => name.startsWith('.publisher')),
        ['.publisher.json'],
        'only the state is left next to them',
      );
      t.comment(`report: ${from} → ${to}: ${files.length} files identical, SHA256SUMS agrees`);
    });

t.test('rclone check finds what was published to S3 and SFTP identical to the source', async (t) => {
  const only = ['--exclude', 'manifest.json', '--one-way'];
  for (const from of kinds) {
    const checked = await rclone(s3, [
      'check',
      bundle,
      `s3:${bucket}/${from}-to-s3/session 42`,
      '--download',
      ...only,
    ]);
    t.match(checked, /0 differences found/);
    const key = `key_file=${sshd.clientKeyFile}`;
    const remote = `:sftp,host=${sshd.host},port=${sshd.port},user=${sshd.user},${key}:${sshd.root}/${from}-to-sftp/session 42`;
    t.match(await rclone(s3, ['check', bundle, remote, '--download', ...only]), /0 differences found/);
  }
});

t.test("verify reads everything back, inspect --probe shows the servers' capabilities", async (t) => {
  t.equal(waybill(['verify', '-c', config], { env }).status, 0);
  const probed = waybill(['inspect', '-c', config, '-p', 'from-sftp', '--probe', '--format', 'json'], {
    env,
  });
  t.equal(probed.status, 0, probed.stdout);
  const all = { list: { answer: 'yes' }, create: { answer: 'yes' }, remove: { answer: 'yes' } };
  t.match(document(t, probed), {
    probes: [
      {
        destination_id: null,
        probe: { latency_ms: { median: Number }, rights: { list: { answer: 'yes' } } },
      },
      { destination_id: 'to-local', probe: { rename: 'atomic', rights: all } },
      {
        destination_id: 'to-sftp',
        probe: { rename: 'atomic', conditional_writes: 'create', clock_offset_ms: Number, rights: all },
      },
      {
        destination_id: 'to-s3',
        probe: { rename: 'none', conditional_writes: 'full', clock_offset_ms: Number, rights: all },
      },
    ],
  });
  const shown = waybill(['inspect', '-c', config, '-p', 'from-s3', '--probe'], { env }).stdout;
  t.match(shown, /to-sftp .*agrees .*atomic .*create/);
  t.match(shown, /to-s3 .*agrees .*none .*full/);
  t.equal(waybill(['run', '-c', config], { env }).status, 0, 'leftovers of a probe do not affect a run');
});

/** The files below a name of a destination as a local directory, fetched with the usual tool. */
async function fetched(t: Test, name: string, kind: Kind): Promise<string> {
  if (kind === 'local') return path.join(place, name);
  const target = path.join(t.testdir(), name);
  mkdirSync(target, { recursive: true });
  if (kind === 's3') await rclone(s3, ['copy', `s3:${bucket}/${name}`, target]);
  else {
    const login = [
      '-q',
      '-P',
      String(sshd.port),
      '-i',
      sshd.clientKeyFile,
      '-o',
      `UserKnownHostsFile=${sshd.knownHostsFile}`,
    ];
    const input = `get -r "${sshd.root}/${name}/session 42" "${target}"\n`;
    execFileSync('sftp', [...login, '-b', '-', `${sshd.user}@${sshd.host}`], {
      input,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
  }
  return target;
}
