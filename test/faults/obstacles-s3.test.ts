import { DeleteBucketPolicyCommand, HeadObjectCommand, PutBucketPolicyCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import type { S3Location } from '../../src/core/storage/s3/s3-location.ts';
import { s3Storage } from '../../src/core/storage/s3/s3-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { withRetry } from '../../src/core/storage/wrappers/with-retry.ts';
import { locationOf, secretsOf, startRadosgw } from '../services/radosgw.ts';
import { type SeenRequest, startS3Proxy } from '../services/s3-proxy.ts';
import { bareRequests } from '../services/s3-requests.ts';
import { howMany } from '../support/sampling.ts';
import { type Files, leftovers, lookAt, publishTo, snapshot, type World } from './world.ts';

/** Like `obstacles.test.ts`, with a server that rejects one of many keys, including the last ones. */

const server = await startRadosgw(t);
const proxy = await startS3Proxy(t, server);
t.beforeEach(() => {
  proxy.judge = () => 'pass';
});

async function open(location: S3Location): Promise<Storage> {
  const secrets = secretsOf(server.user);
  const storage = await s3Storage(location, { clock: systemClock, log: silentLog, secrets });
  return withRetry(storage, { policy: { retries: 2, baseMs: 1, capMs: 1 }, clock: systemClock });
}

/**
 * The objects below the prefix `p/` of a bucket, read without the driver, because its reads are not under
 * test.
 */
function placeIn(t: Test, bucket: string): Pick<World, 'files'> {
  const requests = bareRequests(server, bucket);
  t.teardown(() => requests.close());
  const textOf = async (key: string): Promise<[string, string]> => [
    key.slice('p/'.length),
    (await requests.get(key)).body.toString(),
  ];
  return { files: async () => new Map(await Promise.all((await requests.list('p/')).map(textOf))) };
}

const publish = async (storage: Storage, files: Files, dryRun = false): Promise<ActionResult> =>
  publishTo(storage, { files, workflow: 'replacement', dryRun });

const many = howMany(150, 15);
const keys = Array.from({ length: many }, (_, index) => `assets/f${String(index).padStart(3, '0')}.txt`);
const filesWith = (text: string, more: Files = {}): Files => ({
  ...Object.fromEntries(keys.map((key) => [key, `${text} ${key}`])),
  ...more,
});

const isOf = ({ url }: SeenRequest, key: string): boolean => url.split('?')[0]?.endsWith(key) === true;
const isPut = (request: SeenRequest, key: string): boolean => request.method === 'PUT' && isOf(request, key);
const refusals: Record<string, (request: SeenRequest) => boolean> = {
  'the last key of many that exist': (request) => isPut(request, `/bundle/${keys.at(-1) ?? ''}`),
  'a key that is new': (request) => isPut(request, '/bundle/new.txt'),
  'a page, which comes last': (request) => isPut(request, '/bundle/index.html'),
  'a deletion': (request) => request.method === 'DELETE' && isOf(request, '/bundle/gone.txt'),
};

for (const [what, isRefused] of Object.entries(refusals))
  t.test(`S3: rejects ${what}`, async (t) => {
    const bucket = await server.newBucket();
    const place = placeIn(t, bucket);
    const storage = await open(locationOf(proxy.endpoint, bucket, 'p/'));
    t.teardown(() => storage.close());
    const old = filesWith('old', { 'gone.txt': 'gone', 'index.html': 'old' });
    const next = filesWith('new', { 'index.html': 'new', 'new.txt': 'new' });
    t.equal((await publish(storage, old)).error, null);
    const before = await place.files();
    proxy.judge = (request) => (isRefused(request) ? { status: 403, code: 'AccessDenied' } : 'pass');
    for (const round of ['once', 'again']) {
      t.match(await publish(storage, next), { error: { code: 'storage_denied', hint: /rights/ } }, round);
      t.same(await place.files(), before, 'everything is unchanged, and no other objects are left');
    }
    const Key = `p/bundle/${keys[0] ?? ''}`;
    t.match(
      await server.client().send(new HeadObjectCommand({ Bucket: bucket, Key })),
      { ContentType: 'text/plain; charset=utf-8', Metadata: { 'waybill-sha256': /^[0-9a-f]{64}$/ } },
      'with its headers and metadata',
    );

    proxy.judge = () => 'pass';
    t.match(await publish(storage, next), { error: null, action: 'replace_catalog' });
    const { files, catalogMismatches } = await lookAt(place);
    for (const name of ['index.html', 'new.txt', keys.at(-1) ?? ''])
      t.equal(files.get(`bundle/${name}`), next[name], name);
    t.notOk(files.has('bundle/gone.txt'));
    t.same(leftovers(files), []);
    t.same(catalogMismatches, []);
    t.match(await publish(storage, next), { action: 'skip_same' });
  });

t.test('S3: detects a key that is too long with its prefix before any write', async (t) => {
  const prefix = `${'p'.repeat(200)}/${'q'.repeat(200)}/${'r'.repeat(200)}/${'s'.repeat(200)}/`;
  const storage = await open(locationOf(proxy.endpoint, await server.newBucket(), prefix));
  t.teardown(() => storage.close());
  t.equal((await publish(storage, { 'a.txt': 'a' })).error, null);
  const before = await snapshot(storage);
  const long = `${'x'.repeat(200)}/${'y'.repeat(100)}.txt`;
  for (const dryRun of [true, false]) {
    const failed = await publish(storage, { 'a.txt': 'b', [long]: 'x' }, dryRun);
    t.match(failed, { error: { code: 'storage_permanent', message: /too long/, hint: /shorter prefix/ } });
    t.same(await snapshot(storage), before);
  }
  t.match(await publish(storage, { 'a.txt': 'b', 'short.txt': 'x' }), { error: null });
});

/** The requests that a bucket policy denies, and the key with which the run fails. */
const policies: [what: string, action: string, resource: string, key: RegExp][] = [
  ['writing one key that is new', 's3:PutObject', 'bundle/new.txt', /bundle\/new\.txt/],
  ['writing below one prefix', 's3:PutObject', 'bundle/assets/*', /bundle\/assets\/a\.txt/],
  ['removing one key', 's3:DeleteObject', 'bundle/gone.txt', /bundle\/gone\.txt/],
];

for (const [what, Action, resource, key] of policies)
  t.test(`S3: a policy of the bucket forbids ${what}`, async (t) => {
    const Bucket = await server.newBucket();
    const place = placeIn(t, Bucket);
    const storage = await open(locationOf(server.endpoint, Bucket, 'p/'));
    t.teardown(() => storage.close());
    const old: Files = { 'assets/a.txt': 'old', 'gone.txt': 'gone', 'index.html': 'old' };
    const changed: Files = { 'assets/a.txt': 'new', 'index.html': 'new', 'new.txt': 'new' };
    t.equal((await publish(storage, old)).error, null);
    const before = await place.files();
    const client = server.client();
    const Resource = `arn:aws:s3:::${Bucket}/p/${resource}`;
    const Statement = [{ Effect: 'Deny', Principal: '*', Action, Resource }];
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
    for (const round of ['once', 'again']) {
      await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
      const refused = await publish(storage, changed);
      t.match(
        refused,
        { error: { code: 'storage_denied', message: key, hint: /the rights that docs/ } },
        round,
      );
      await client.send(new DeleteBucketPolicyCommand({ Bucket }));
      t.same(await place.files(), before, 'everything is unchanged, and no other objects are left');
    }
    t.match(await publish(storage, changed), { error: null, action: 'replace_catalog' });
    const { files, catalogMismatches } = await lookAt(place);
    t.same(leftovers(files), []);
    t.same(catalogMismatches, []);
  });

t.test('S3 policy without removals: a later run finishes removals that failed', async (t) => {
  const Bucket = await server.newBucket();
  const place = placeIn(t, Bucket);
  const storage = await open(locationOf(server.endpoint, Bucket, 'p/'));
  t.teardown(() => storage.close());
  t.equal((await publish(storage, { 'gone.txt': 'gone', 'index.html': 'old' })).error, null);
  const client = server.client();
  const Resource = `arn:aws:s3:::${Bucket}/*`;
  const Statement = [{ Effect: 'Deny', Principal: '*', Action: 's3:DeleteObject', Resource }];
  const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
  await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
  const next: Files = { 'index.html': 'new', 'new.txt': 'new' };
  for (const round of ['once', 'again']) {
    t.match(await publish(storage, next), { error: { code: 'storage_denied', hint: /rights/ } }, round);
    const { files, catalogMismatches } = await lookAt(place);
    t.match(Object.fromEntries(files), { 'bundle/gone.txt': 'gone', 'bundle/index.html': 'old' });
    t.same(catalogMismatches, [], 'the state is accurate');
  }
  await client.send(new DeleteBucketPolicyCommand({ Bucket }));
  t.match(await publish(storage, next), { error: null });
  const files = await place.files();
  t.same(leftovers(files), []);
  t.same([...files.keys()].sort(), ['bundle/.publisher.json', 'bundle/index.html', 'bundle/new.txt']);
  t.match(await publish(storage, next), { action: 'skip_same' });
});
