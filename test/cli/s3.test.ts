import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import { startRadosgw } from '../services/radosgw.ts';
import { rclone } from '../services/rclone.ts';
import { startS3Proxy } from '../services/s3-proxy.ts';
import { document, type Ended, errorDocument, manifest, program } from './process.ts';
import { upkeepSuite } from './upkeep.ts';

/** The built program, from S3 to S3 and to a directory. */

const server = await startRadosgw(t);
const proxy = await startS3Proxy(t, server);
const client = server.client();
const secrets = { MAPS_KEY: server.user.accessKeyId, MAPS_SECRET: server.user.secretAccessKey };

const large = Buffer.alloc(9 << 20, 'large ');
const listed = (name: string, bytes: string | Buffer): object => ({
  path: name,
  size: Buffer.byteLength(bytes),
  digest: digestOf(bytes),
});
const bundles: Record<string, string | Buffer> = {
  'one/manifest.json': manifest([
    listed('a.txt', 'a'),
    listed('sub dir/b+c.json', '{}'),
    listed('large.bin', large),
  ]),
  'one/a.txt': 'a',
  'one/sub dir/b+c.json': '{}',
  'one/large.bin': large,
  'deep/two/manifest.json': manifest(['ü.txt'], '2026-11-21T00:00:00Z'),
  'deep/two/ü.txt': 'newer',
};

interface Place {
  config: string;
  disk: string;
  source: string;
  target: string;
}

async function layOut(t: Test): Promise<Place> {
  const [source, target] = [await server.newBucket(), await server.newBucket()];
  for (const [name, Body] of Object.entries(bundles))
    await client.send(new PutObjectCommand({ Bucket: source, Key: `in/${name}`, Body }));
  await client.send(new PutObjectCommand({ Bucket: target, Key: 'live-not/guest', Body: 'guest' }));
  const s3 = `backend: s3, endpoint: "${proxy.endpoint}", access_key_id_env: MAPS_KEY, secret_access_key_env: MAPS_SECRET`;
  const prune = 'retention: {prune: {enabled: true, keep_latest: 1}}';
  const root = t.testdir({
    'c.yml': [
      'pipelines:',
      '  - id: maps',
      `    source: {${s3}, bucket: ${source}, prefix: in}`,
      '    destinations:',
      `      - {id: cdn, ${s3}, bucket: ${target}, prefix: live, cache_control: "max-age=60", ${prune}}`,
      '      - {id: disk, backend: local, path: ./disk, mapping: fixed}',
    ].join('\n'),
  });
  return { config: path.join(root, 'c.yml'), disk: path.join(root, 'disk'), source, target };
}

/** Must be asynchronous, because the proxy is in this process. */
async function waybill(args: string[], env: Record<string, string> = secrets): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env },
  });
  const [stdout, stderr, status] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve) => child.once('exit', resolve)),
  ]);
  t.notOk((stdout + stderr).includes(server.user.secretAccessKey), 'no secret is printed');
  return { status, stdout, stderr };
}

async function listing(bucket: string): Promise<Record<string, string>> {
  const { Contents } = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
  const found: Record<string, string> = {};
  for (const { Key = '', ETag = '', LastModified } of Contents ?? [])
    found[Key] = `${ETag} ${LastModified?.toISOString() ?? ''}`;
  return found;
}

t.test('validate, inspect and a dry run write nothing, and inspect reads only manifests', async (t) => {
  const { config, source, target } = await layOut(t);
  const before = [await listing(source), await listing(target)];

  proxy.seen.length = 0;
  const inspected = await waybill(['inspect', '--config', config, '--pipeline', 'maps', '--format', 'json']);
  t.equal(inspected.status, 0, inspected.stderr);
  t.match(document(t, inspected), {
    bundles: [
      { path: 'deep/two', files: 1, bytes: 5 },
      { path: 'one', files: 3, bytes: large.length + 3 },
    ],
  });
  const validated = await waybill([
    'validate',
    '--config',
    config,
    '--pipeline',
    'maps',
    '--listing-only',
    '--format',
    'json',
  ]);
  t.equal(validated.status, 0, validated.stderr);
  t.match(document(t, validated), { valid: true, files_read: false });
  const read = proxy.seen
    .filter(({ url }) => !url.includes('list-type=2'))
    .map(({ url }) => url.split('/').at(-1));
  t.ok(
    read.every((name) => /^(manifest|\.publisher)\.json/.test(name ?? '')),
    read.join(' '),
  );

  const gets = proxy.seen.length;
  const whole = await waybill(['validate', '--config', config, '--pipeline', 'maps', '--format', 'json']);
  t.equal(whole.status, 0, whole.stderr);
  t.match(document(t, whole), { valid: true, files_read: true });
  const fetched = proxy.seen.slice(gets).filter(({ url }) => !url.includes('list-type=2'));
  t.ok(
    fetched.some(({ url }) => !/(manifest|\.publisher)\.json/.test(url)),
    'every file is read',
  );
  const dry = await waybill(['run', '--config', config, '--dry-run', '--format', 'json']);
  t.equal(dry.status, 0, dry.stderr);
  t.match(document(t, dry), { counters: { publish_new: 3 } });
  t.same([await listing(source), await listing(target)], before);
  // A dry run of a first publication also checks for releases with HEAD.
  t.same([...new Set(proxy.seen.map(({ method }) => method))].sort(), ['GET', 'HEAD']);
});

t.test("inspect --probe shows the server's capabilities, and leaves no objects", async (t) => {
  const { config, target } = await layOut(t);
  const before = await listing(target);
  const inspect = ['inspect', '--config', config, '--pipeline', 'maps', '--probe', '--format', 'json'];
  const granted = { answer: 'yes', error: null };
  const expected = (conditional: string): object => ({
    probes: [
      { destination_id: null, error: null },
      {
        destination_id: 'cdn',
        error: null,
        probe: {
          rename: 'none',
          conditional_writes: conditional,
          clock_offset_ms: Number,
          rights: { list: granted, create: granted, read: granted, replace: granted, remove: granted },
        },
      },
      { destination_id: 'disk', error: null },
    ],
  });
  t.match(document(t, await waybill(inspect)), expected('full'));
  proxy.judge = ({ ifMatch, ifNoneMatch }) =>
    (ifMatch ?? ifNoneMatch) === undefined ? 'pass' : { status: 501, code: 'NotImplemented' };
  t.teardown(() => (proxy.judge = () => 'pass'));
  t.match(document(t, await waybill(inspect)), expected('none'));
  t.same(await listing(target), before);
});

t.test('publishes, compares with rclone, verifies, repairs and prunes', async (t) => {
  const { config, disk, source, target } = await layOut(t);
  const first = await waybill(['run', '--config', config, '--format', 'json']);
  t.equal(first.status, 0, first.stderr);
  t.equal(first.stderr, '');
  t.match(document(t, first), { counters: { publish_new: 3, failed_destinations: 0 } });
  const published = Object.keys(await listing(target)).sort();
  t.same(published, [
    'live-not/guest',
    'live/deep/two/.publisher.json',
    'live/deep/two/ü.txt',
    'live/one/.publisher.json',
    'live/one/a.txt',
    'live/one/large.bin',
    'live/one/sub dir/b+c.json',
  ]);
  t.equal(readFileSync(path.join(disk, 'ü.txt'), 'utf8'), 'newer');

  const own = ['--exclude', '**manifest.json', '--exclude', '**.publisher.json', '--download'];
  t.match(
    await rclone(server, ['check', `s3:${source}/in`, `s3:${target}/live`, ...own]),
    /0 differences found/,
  );
  t.match(await rclone(server, ['check', `s3:${source}/in/deep/two`, disk, ...own]), /0 differences found/);
  const head = new HeadObjectCommand({ Bucket: target, Key: 'live/one/sub dir/b+c.json' });
  t.match(await client.send(head), {
    ContentType: /^application\/json/,
    CacheControl: 'max-age=60',
    Metadata: { 'waybill-sha256': digestOf('{}').slice('sha256:'.length) },
  });

  const before = await listing(target);
  const again = await waybill(['run', '--config', config, '--format', 'json']);
  t.match(document(t, again), { counters: { skip_same: 3 } });
  t.same(await listing(target), before, 'a run without changes writes nothing');

  const at = ['--config', config, '--pipeline', 'maps', '--destination', 'cdn'];
  t.equal((await waybill(['verify', ...at])).status, 0);
  await client.send(new DeleteObjectCommand({ Bucket: target, Key: 'live/one/a.txt' }));
  t.equal((await waybill(['verify', ...at])).status, 1);
  t.equal((await waybill(['reconcile-state', ...at])).status, 0);
  const repaired = await waybill(['run', '--config', config, '--format', 'json']);
  t.match(document(t, repaired), { counters: { upsert_additive: 1, skip_same: 2 } });
  t.equal((await waybill(['verify', ...at])).status, 0);

  const pruned = await waybill(['prune', ...at, '--apply']);
  t.equal(pruned.status, 0, pruned.stderr);
  const left = Object.keys(await listing(target)).filter((name) => !name.endsWith('.publisher.json'));
  t.equal(left.length, 2, `one output and the guest: ${left.join(' ')}`);
  t.ok(left.includes('live-not/guest'));
});

t.test(
  'a missing or empty secret stops the run before any work; a wrong one fails its destination',
  async (t) => {
    const { config } = await layOut(t);
    proxy.seen.length = 0;
    const incomplete: Record<string, string>[] = [{ MAPS_KEY: 'k' }, { MAPS_KEY: 'k', MAPS_SECRET: '' }];
    for (const env of incomplete) {
      const ended = await waybill(['run', '--config', config, '--format', 'json'], env);
      t.match(ended, { status: 2, stderr: /MAPS_SECRET/ });
      t.match(errorDocument(t, ended), { kind: 'error', error: { code: 'secrets_invalid' } });
    }
    t.equal(proxy.seen.length, 0);
    const wrong = await waybill(['run', '--config', config], { ...secrets, MAPS_SECRET: 'wrong-0123456789' });
    t.equal(wrong.status, 1);
    t.match(wrong.stdout + wrong.stderr, /secret access key is wrong/);
    t.notMatch(wrong.stdout + wrong.stderr, /wrong-0123456789/);
  },
);

t.test('without an endpoint and credentials, uses those of the SDK', async (t) => {
  const bucket = await server.newBucket();
  const place = t.testdir({
    source: { one: { 'manifest.json': manifest(['a.txt', 'large.bin']), 'a.txt': 'a', 'large.bin': large } },
    'c.yml': [
      'pipelines:',
      '  - id: maps',
      '    source: {backend: local, path: ./source}',
      '    destinations:',
      `      - {id: cdn, backend: s3, bucket: ${bucket}, path_style: true}`,
    ].join('\n'),
  });
  const run = ['run', '--config', path.join(place, 'c.yml'), '--format', 'json'];
  const chain = {
    AWS_ENDPOINT_URL_S3: proxy.endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: server.user.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.user.secretAccessKey,
    AWS_REQUEST_CHECKSUM_CALCULATION: 'WHEN_REQUIRED',
  };
  for (const counters of [{ publish_new: 1 }, { skip_same: 1 }])
    t.match(document(t, await waybill(run, chain)), { counters });
  t.same(Object.keys(await listing(bucket)).sort(), ['one/.publisher.json', 'one/a.txt', 'one/large.bin']);
  const nothing = { ...chain, AWS_SECRET_ACCESS_KEY: '', AWS_EC2_METADATA_DISABLED: 'true' };
  const refused = await waybill(run, nothing);
  t.equal(refused.status, 1);
  t.match(refused.stdout, /no S3 credentials were found/);
});

upkeepSuite(t, {
  name: 'S3',
  waybill,
  async newDirectory() {
    const Bucket = await server.newBucket();
    return {
      settings: `backend: s3, endpoint: "${proxy.endpoint}", access_key_id_env: MAPS_KEY, secret_access_key_env: MAPS_SECRET, bucket: ${Bucket}, prefix: p`,
      async write(name, text) {
        await client.send(new PutObjectCommand({ Bucket, Key: `p/${name}`, Body: text }));
      },
      async remove(name) {
        await client.send(new DeleteObjectCommand({ Bucket, Key: `p/${name}` }));
      },
      async read() {
        const texts = Object.keys(await listing(Bucket)).map(async (Key) => {
          const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
          return [Key.slice('p/'.length), await Body?.transformToString()];
        });
        return Object.fromEntries(await Promise.all(texts)) as Record<string, string>;
      },
      async fingerprint() {
        const written = proxy.seen.filter(
          ({ method, url }) => !/^(GET|HEAD)$/.test(method) && url.includes(Bucket),
        );
        return { ...(await listing(Bucket)), written: written.length };
      },
    };
  },
});
