import { type ChildProcess, execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import type { Secrets } from '../../src/core/lib/secrets.ts';
import type { S3Location } from '../../src/core/storage/s3/s3-location.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';
import { cleanUpAtExit, endService, hasEnded, spawnService } from './service-process.ts';

const run = promisify(execFile);

export interface S3User {
  id: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/**
 * A real S3 server: Ceph's gateway with an object store in memory, without authentication between its parts,
 * on free loopback ports.
 */
export interface Radosgw extends RadosgwAccess {
  newBucket(): Promise<string>;
  /** For operations that waybill does not have: buckets, policies, unusual objects. */
  client(user?: S3User): S3Client;
}

/** The data needed to use a server. */
export interface RadosgwAccess {
  port: number;
  endpoint: string;
  /** The owner of the tests' buckets. */
  user: S3User;
}

export interface OwnRadosgw extends Radosgw {
  addUser(id: string): Promise<S3User>;
  /** Stops the gateway and starts it again on the same data. */
  restart(): Promise<void>;
}

/** A test, or another owner that ends its processes. */
interface Ending {
  teardown: (release: () => unknown) => unknown;
}

/** The variable in which `npm test` passes one server to all files: a `RadosgwAccess` as JSON. */
export const sharedRadosgw = 'WAYBILL_TEST_RADOSGW';

/** The server of `npm test`; each user creates its own buckets. A file that runs alone starts a server. */
export async function startRadosgw(t: Ending): Promise<Radosgw> {
  const shared = process.env[sharedRadosgw];
  return shared === undefined ? startOwnRadosgw(t) : using(t, JSON.parse(shared) as RadosgwAccess);
}

/** Its clients end with the test. */
function using(t: Ending, { port, endpoint, user }: RadosgwAccess): Radosgw {
  const clients: S3Client[] = [];
  t.teardown(() => clients.forEach((client) => client.destroy()));
  const client = (as = user): S3Client => {
    const made = new S3Client({
      endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: as,
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
    clients.push(made);
    return made;
  };
  const own = client();
  return {
    port,
    endpoint,
    user,
    client,
    async newBucket() {
      const Bucket = `bucket-${randomUUID()}`;
      await own.send(new CreateBucketCommand({ Bucket }));
      return Bucket;
    },
  };
}

/**
 * Starts a restartable server, and ends it with the test. Installs missing packages.
 *
 * @param within the parent of its directory
 * @param through a command prefix for its programs; called with the server's directory
 */
export async function startOwnRadosgw(
  t: Ending,
  within = memoryDirectory(),
  through?: (directory: string) => string[],
): Promise<OwnRadosgw> {
  if (through === undefined) await ensureInstalled('radosgw');
  const directory = mkdtempSync(path.join(within, 'waybill-radosgw-'));
  const before = through?.(directory) ?? [];
  const children: ChildProcess[] = [];
  const revoke = cleanUpAtExit(directory, () => children);
  t.teardown(async () => {
    revoke();
    for (const child of children.reverse()) await endService(child);
    rmSync(directory, { recursive: true, force: true });
  });

  const conf = path.join(directory, 'ceph.conf');
  const env = { ...process.env, CEPH_CONF: conf };
  const call = async (...command: string[]): Promise<string> => {
    const [program = '', ...args] = [...before, ...command];
    return (await run(program, args, { env, maxBuffer: 1 << 26 })).stdout;
  };
  const start = (program: string, ...args: string[]): ChildProcess => {
    const log = openSync(path.join(directory, 'output.log'), 'a');
    const [first = '', ...others] = [...before, program, '-f', ...args];
    const child = spawnService(first, others, { env, stdio: ['ignore', log, log] });
    closeSync(log);
    children.push(child);
    return child;
  };

  const port = await freePort();
  await layOut(directory, conf, port, await freePort(), await freePort(), call);
  start('ceph-mon', '-i', 'a');
  const osd = randomUUID();
  await call('ceph', 'osd', 'new', osd);
  await call('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', osd);
  start('ceph-osd', '-i', '0');
  const addUser = async (id: string): Promise<S3User> => {
    const [accessKeyId, secretAccessKey] = [`KEY${id.toUpperCase()}`, `Secret/of+${id}=`];
    const names = [`--uid=${id}`, `--display-name=${id}`];
    const keys = [`--access-key=${accessKeyId}`, `--secret-key=${secretAccessKey}`];
    await call('radosgw-admin', '-n', 'client.rgw', 'user', 'create', ...names, ...keys);
    return { id, accessKeyId, secretAccessKey };
  };
  const user = await addUser('test');
  let gateway = start('radosgw', '-n', 'client.rgw');
  await answers(port, gateway);

  return {
    ...using(t, { port, endpoint: `http://127.0.0.1:${port}`, user }),
    addUser,
    async restart() {
      await endService(gateway);
      gateway = start('radosgw', '-n', 'client.rgw');
      await answers(port, gateway);
    },
  };
}

/** The location of a bucket as in the configuration; `secretsOf` has the secrets that it refers to. */
export function locationOf(
  endpoint: string,
  bucket: string,
  prefix = '',
): S3Location & { allowBucketRoot: boolean } {
  return {
    backend: 's3',
    bucket,
    prefix,
    endpoint,
    region: null,
    pathStyle: true,
    credentials: { accessKeyIdEnv: 'TEST_KEY', secretAccessKeyEnv: 'TEST_SECRET' },
    allowBucketRoot: false,
  };
}

export function secretsOf({ accessKeyId, secretAccessKey }: S3User): Secrets {
  const values: Record<string, string> = { TEST_KEY: accessKeyId, TEST_SECRET: secretAccessKey };
  return { get: (name) => values[name], require: (name) => values[name] ?? '', warnings: [] };
}

async function layOut(
  directory: string,
  conf: string,
  port: number,
  monPort: number,
  monPort2: number,
  call: (...command: string[]) => Promise<string>,
): Promise<void> {
  for (const name of ['mon', 'osd', 'rgw', 'run', 'log']) mkdirSync(path.join(directory, name));
  writeFileSync(path.join(directory, 'keyring'), '');
  const fsid = randomUUID();
  const addresses = `[v2:127.0.0.1:${monPort},v1:127.0.0.1:${monPort2}]`;
  writeFileSync(conf, configuration(directory, fsid, addresses, port));
  const monmap = path.join(directory, 'monmap');
  await call('monmaptool', '--create', '--addv', 'a', addresses, '--fsid', fsid, monmap);
  await call('ceph-mon', '--mkfs', '-i', 'a', '--monmap', monmap);
}

function configuration(directory: string, fsid: string, addresses: string, port: number): string {
  const messengers = ['mon client', 'mon service', 'mon cluster', 'client', 'service', 'cluster'];
  return `[global]
fsid = ${fsid}
mon host = ${addresses}
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = ${directory}/run
admin socket = ${directory}/run/$name.$pid.asok
pid file = ${directory}/run/$name.pid
log file = ${directory}/log/$name.log
crash dir = ${directory}/log
mon data = ${directory}/mon
osd data = ${directory}/osd
keyring = ${directory}/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 1000
osd objectstore = memstore
memstore device bytes = 8589934592
osd memory target = 1073741824
osd class load list = *
osd class default list = *
paxos propose interval = 0.02
paxos min wait = 0.01
mon osd cache size = 50
${messengers.map((name) => `ms ${name} mode = crc`).join('\n')}
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:${port} tcp_nodelay=1
rgw data = ${directory}/rgw
rgw dns name =
rgw enable usage log = false
rgw enable ops log = false
rgw gc max objs = 4
rgw gc obj min wait = 2
rgw gc processor period = 2
rgw gc processor max time = 2
rgw lc max objs = 4
rgw reshard num logs = 4
rgw dynamic resharding = false
rgw override bucket index max shards = 1
rgw max chunk size = 4194304
rgw multipart min part size = 1
`;
}

/** Waits until the gateway answers anything. Fails immediately if it has ended. */
async function answers(port: number, gateway: ChildProcess): Promise<void> {
  for (;;) {
    if (hasEnded(gateway)) throw new Error(`radosgw ended with ${gateway.signalCode ?? gateway.exitCode}`);
    const isUp = await fetch(`http://127.0.0.1:${port}/`).then(
      async (response) => response.text().then(() => true),
      () => false,
    );
    if (isUp) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
