import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import t from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { startSshd } from '../services/sshd.ts';
import { Api, uploads } from './daemon.ts';
import { manifest, pipeline, waybill, web, World } from './harness.ts';

/** SSH/SFTP and S3-compatible storage, on an OpenSSH server and on a Ceph object gateway. */

// The forced command allows only SFTP.
const sshd = await startSshd(t, { settings: ['ForceCommand internal-sftp'] });
const gateway = await startRadosgw(t);
const client = gateway.client();
const keys = { MAPS_KEY: gateway.user.accessKeyId, MAPS_SECRET: gateway.user.secretAccessKey };

const sftp = (directory: string, more = `ssh_key_file: "${sshd.clientKeyFile}"`): string =>
  `backend: sftp, host: ${sshd.host}, port: ${sshd.port}, user: ${sshd.user}, path: "${sshd.root}/${directory}", known_hosts_file: ./known_hosts, ${more}`;
const s3 = (bucket: string, more = ''): string =>
  `backend: s3, endpoint: "${gateway.endpoint}", bucket: ${bucket}, access_key_id_env: MAPS_KEY, secret_access_key_env: MAPS_SECRET${more}`;
const from = (source: string, destinations: readonly string[]): string =>
  pipeline(destinations).replace('{backend: local, path: ./source}', `{${source}}`);

/** A directory of the SSH server with the bundle `one`. */
function sftpSource(name: string): string {
  const bundle = path.join(sshd.root, name, 'one');
  mkdirSync(bundle, { recursive: true });
  writeFileSync(path.join(bundle, 'manifest.json'), manifest(['a.txt']));
  writeFileSync(path.join(bundle, 'a.txt'), 'a');
  return name;
}

async function put(bucket: string, objects: Record<string, string>): Promise<void> {
  for (const [Key, Body] of Object.entries(objects))
    await client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
}

async function list(bucket: string): Promise<string[]> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
  return Contents.map(({ Key = '' }) => Key).sort();
}

async function newWorld(config: string): Promise<World> {
  const world = new World(t, config);
  Object.assign(world.env, keys);
  return world;
}

t.test('backends', async (t) => {
  const bucket = await gateway.newBucket();
  await put(bucket, { 'in/one/manifest.json': manifest(['a.txt']), 'in/one/a.txt': 'a' });
  const destinations = [web, `id: ssh, ${sftp('out')}`, `id: cdn, ${s3(bucket, ', prefix: out')}`];
  const local = await newWorld(pipeline(destinations));
  local.bundle('one', { 'a.txt': 'a' });
  const worlds = {
    local,
    sftp: await newWorld(from(sftp(sftpSource('in')), ['id: web, backend: local, path: ./web'])),
    s3: await newWorld(from(s3(bucket, ', prefix: in'), ['id: web, backend: local, path: ./web'])),
  };
  for (const [name, world] of Object.entries(worlds)) {
    const ended = await world.run();
    t.equal(ended.status, 0, `${name}: ${ended.stdout}${ended.stderr}`);
  }
  const config = await Promise.all(
    Object.values(worlds).map(async (world) =>
      world.cli('validate', '--config', 'c.yml', '--pipeline', 'maps'),
    ),
  );

  t.test(
    'Source backends: local directory, SSH/SFTP, S3-compatible storage, and `http_upload` (bundles pushed by producers over HTTP).',
    async (t) => {
      for (const [name, world] of Object.entries(worlds)) t.equal(world.files('web')['one/a.txt'], 'a', name);
      const api = await Api.start(t, new World(t, uploads('')));
      const { run_id: runId } = await api.accepted();
      t.equal(await api.ended(runId), 'succeeded');
    },
  );

  t.test(
    'Destination backends: local directory (`path`), SSH/SFTP (remote `path`), S3-compatible storage (`bucket` plus optional `prefix`).',
    async (t) => {
      t.ok(existsSync(path.join(sshd.root, 'out/one/a.txt')));
      t.ok((await list(bucket)).includes('out/one/a.txt'));
      t.equal(local.files('web')['one/a.txt'], 'a');
    },
  );

  t.test('The configured form of validate works for every source', async (t) => {
    t.same(
      config.map(({ status }) => status),
      [0, 0, 0],
    );
  });
});

t.test('S3-compatible destinations', async (t) => {
  const bucket = await gateway.newBucket();
  const world = await newWorld(pipeline([`id: cdn, ${s3(bucket, ', prefix: live')}, workflow: replacement`]));
  world.bundle('one', { 'a.txt': 'a', 'b.txt': 'b' });
  t.equal((await world.run()).status, 0);
  const guests = ['live-not/guest', 'live/one-not/guest', 'live/guest', 'guest'];
  await put(bucket, Object.fromEntries([...guests, 'live/one/stray'].map((key) => [key, 'theirs'])));
  world.remove('source/one');
  world.bundle('one', { 'a.txt': 'newer' }, '2026-11-21T00:00:00Z');
  t.same(await world.actions(), ['replace_catalog']);
  const replaced = await list(bucket);
  await put(bucket, { 'live/one/.publisher.json': '{' });
  const forced = await world.actions('--force');
  const afterForce = await list(bucket);

  t.test(
    'Normal replacement and failed-write cleanup on S3-compatible storage delete only managed output objects recorded in state plus the state object.',
    async (t) => {
      const own = ['live/one/.publisher.json', 'live/one/a.txt'];
      t.same(replaced, [...guests, ...own, 'live/one/stray'].sort());
      world.bundle('one', { 'a.txt': 'broken' }, '2026-11-22T00:00:00Z');
      const files = ['a.txt', { path: 'z.txt', size: 1, digest: `sha256:${'0'.repeat(64)}` }];
      const created = '2026-11-22T00:00:00Z';
      world.write('source/one/manifest.json', JSON.stringify({ schema_version: 1, created, files }));
      world.write('source/one/z.txt', 'z');
      await put(bucket, { 'live/one/other-stray': 'theirs' });
      t.equal((await world.run()).status, 1);
      const left = await list(bucket);
      for (const guest of [...guests, 'live/one/other-stray']) t.ok(left.includes(guest), guest);
      t.notOk(left.includes('live/one/z.txt'));
    },
  );

  t.test('For S3-compatible storage it deletes objects under the destination bundle prefix.', async (t) => {
    t.same(forced, ['force_replace']);
    t.same(afterForce, [...guests, 'live/one/.publisher.json', 'live/one/a.txt'].sort());
  });

  t.test(
    'S3-compatible credentials: when explicit credential variable names are configured, both must resolve to non-empty values from the environment or `secrets.directory`; when omitted, the default credential chain of the storage client is used as is.',
    async (t) => {
      for (const env of [{ MAPS_KEY: 'k' }, { ...keys, MAPS_SECRET: '' }])
        t.match(await waybill(world.root, ['run', '-c', 'c.yml'], env), { status: 2, stderr: /MAPS_SECRET/ });
      const chain = new World(
        t,
        pipeline([
          `id: cdn, backend: s3, endpoint: "${gateway.endpoint}", bucket: ${await gateway.newBucket()}, region: default`,
        ]),
      );
      chain.bundle('one', { 'a.txt': 'a' });
      const variables = { AWS_ACCESS_KEY_ID: keys.MAPS_KEY, AWS_SECRET_ACCESS_KEY: keys.MAPS_SECRET };
      t.equal((await waybill(chain.root, ['run', '-c', 'c.yml'], variables)).status, 0);
      t.match(await waybill(chain.root, ['run', '-c', 'c.yml']), { status: 1 });
    },
  );
});

t.test('SSH', async (t) => {
  const world = await newWorld(pipeline([`id: web, ${sftp('ssh')}`]));
  world.bundle('one', { 'a.txt': 'a' });
  const dry = await world.run('--dry-run');
  const knownAfterDryRun = existsSync(world.at('known_hosts'));
  const done = await world.run();
  const other = `[${sshd.host}]:${sshd.port} ${readFileSync(`${sshd.clientKeyFile}.pub`, 'utf8')}`;

  t.test('SSH/SFTP uses native SFTP.', async (t) => {
    t.equal(done.status, 0, 'the server allows only its SFTP subsystem');
    t.equal(readFileSync(path.join(sshd.root, 'ssh/one/a.txt'), 'utf8'), 'a');
  });

  t.test('Host key policy: default `accept-new`.', async (t) => {
    t.match(readFileSync(world.at('known_hosts'), 'utf8'), sshd.host, 'an unknown key is stored');
    world.write('c.yml', pipeline([`id: web, ${sftp('ssh')}, host_key_policy: strict`]));
    t.equal((await world.run()).status, 0, 'and known afterwards');
  });

  t.test(
    'In dry runs unknown host keys may be accepted for the connection but are not persisted.',
    async (t) => {
      t.equal(dry.status, 0);
      t.notOk(knownAfterDryRun);
    },
  );

  t.test('A changed host key is fatal under `strict` and `accept-new`.', async (t) => {
    world.write('known_hosts', other);
    for (const policy of ['strict', 'accept-new']) {
      world.write('c.yml', pipeline([`id: web, ${sftp('ssh')}, host_key_policy: ${policy}`]));
      t.match(await world.run(), { status: 1, stdout: /has changed/ }, policy);
    }
  });

  t.test('`off` disables checking.', async (t) => {
    world.write('known_hosts', other);
    world.write('c.yml', pipeline([`id: web, ${sftp('ssh')}, host_key_policy: off`]));
    t.equal((await world.run()).status, 0);
  });

  t.test('ssh_key_file · SSH private key path.', async (t) => {
    world.remove('known_hosts');
    world.write('c.yml', pipeline([`id: web, ${sftp('ssh', 'ssh_key_file: ./none')}`]));
    t.match(await world.run(), { status: 1, stdout: /none/ });
    world.write('key', readFileSync(sshd.clientKeyFile));
    execFileSync('chmod', ['600', world.at('key')]);
    world.write('c.yml', pipeline([`id: web, ${sftp('ssh', 'ssh_key_file: ./key')}`]));
    t.equal((await world.run()).status, 0);
  });

  t.test(
    'Identities come from an SSH agent, `ssh_key_file`, or both; agent identities are tried first.',
    async (t) => {
      const socket = world.at('agent');
      const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: ['ignore', 'pipe', 'ignore'] });
      t.teardown(() => agent.kill());
      await once(agent.stdout, 'data');
      execFileSync('ssh-add', [sshd.clientKeyFile], {
        env: { ...process.env, SSH_AUTH_SOCK: socket },
        stdio: 'ignore',
      });
      world.write('c.yml', pipeline([`id: web, ${sftp('ssh', `ssh_agent_socket: "${socket}"`)}`]));
      t.equal((await world.run()).status, 0, 'only the agent');
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', world.at('foreign')]);
      world.write(
        'c.yml',
        pipeline([`id: web, ${sftp('ssh', `ssh_agent_socket: "${socket}", ssh_key_file: ./foreign`)}`]),
      );
      t.equal((await world.run()).status, 0, 'the agent is tried before a key that the server rejects');
    },
  );
});
