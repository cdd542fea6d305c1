import { DeleteBucketPolicyCommand, PutBucketPolicyCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { publishBundle } from '../../../src/core/publish/publish-bundle.ts';
import type { BundlePublication, PublishRequest } from '../../../src/core/publish/publish-request.ts';
import type { ActionResult } from '../../../src/core/publish/results/result.ts';
import type { S3Location } from '../../../src/core/storage/s3/s3-location.ts';
import { s3Storage } from '../../../src/core/storage/s3/s3-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { withRetry } from '../../../src/core/storage/wrappers/with-retry.ts';
import {
  bundleOf,
  catalogMismatches,
  contextWith,
  destinationOf,
  type Files,
  owner,
  put,
  snapshot,
} from '../../faults/world.ts';
import { locationOf, secretsOf, startOwnRadosgw } from '../../services/radosgw.ts';
import { startS3Proxy } from '../../services/s3-proxy.ts';

/** The requests and deletions of a publication to S3, and its state after a refusal of the server. */

const server = await startOwnRadosgw(t);
const proxy = await startS3Proxy(t, server);

t.beforeEach(() => {
  proxy.judge = () => 'pass';
  proxy.seen.length = 0;
});

type Location = ReturnType<typeof locationOf>;

async function open(location: S3Location, user = server.user): Promise<Storage> {
  const secrets = secretsOf(user);
  const storage = await s3Storage(location, { clock: systemClock, log: silentLog, secrets });
  return withRetry(storage, { policy: { retries: 2, baseMs: 1, capMs: 1 }, clock: systemClock });
}

async function publish(
  location: Location,
  files: Files,
  more: Partial<BundlePublication & PublishRequest> & { user?: typeof server.user } = {},
): Promise<ActionResult> {
  const storage = await open(location, more.user);
  try {
    const publication = {
      bundle: bundleOf(files),
      owner,
      destinationPath: 'bundle',
      ...more,
      destination: { ...(more.destination ?? destinationOf('replacement')), location },
    };
    const request = { dryRun: false, force: false, ...more };
    return await publishBundle(contextWith(systemClock), storage, publication, request);
  } finally {
    await storage.close();
  }
}

/** Keys of the requests with a method, without listings, probes and the attempt's own staged copies. */
/** Requests that write or delete. */
function changing(seen: readonly { method: string }[]): string[] {
  return seen.map(({ method }) => method).filter((method) => method !== 'GET' && method !== 'HEAD');
}

function requests(method: string): string[] {
  return proxy.seen
    .filter((request) => request.method === method && !request.url.includes('list-type=2'))
    .map(({ url }) => decodeURIComponent((url.split('?')[0] ?? '').split('/').slice(2).join('/')))
    .filter((key) => !key.includes('/.publisher.tmp/'))
    .sort();
}

t.test('a first publication writes each file with one request, and makes few others', async (t) => {
  const location = locationOf(proxy.endpoint, await server.newBucket(), 'p/');
  const files = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`d/f${index}`, `${index}`]));
  t.match(await publish(location, files), { action: 'publish_new', outputsWritten: 60 });
  const puts = requests('PUT');
  t.equal(puts.length, 62, 'one for each file; the state twice');
  t.equal(new Set(puts).size, 61);
  t.same(requests('DELETE'), []);
  const others = proxy.seen.length - puts.length;
  t.ok(others <= 17, `${others} further requests`);
  t.comment(`60 files: ${puts.length} PUT and ${others} further requests`);

  proxy.seen.length = 0;
  t.match(await publish(location, files), { action: 'skip_same' });
  t.same(
    proxy.seen.map(({ method }) => method),
    ['GET', 'GET'],
    'without changes: a check of the prefix and the state',
  );
  t.same(
    requests('GET').filter((key) => key !== ''),
    ['p/bundle/.publisher.json'],
  );

  proxy.seen.length = 0;
  const renamed = Object.fromEntries(Object.keys(files).map((name) => [`${name}-2`, 'new']));
  t.match(await publish(location, renamed), { action: 'replace_catalog', outputsRemoved: 60 });
  const asked = proxy.seen.filter(({ method }) => method === 'GET' || method === 'HEAD').length;
  t.ok(asked <= 16, `${asked} requests before 60 new names are written`);
});

t.test('a dry run leaves no trace', async (t) => {
  const location = locationOf(proxy.endpoint, await server.newBucket());
  t.match(await publish(location, { a: 'a' }, { dryRun: true }), {
    action: 'publish_new',
    outputsWritten: 0,
  });
  t.same(changing(proxy.seen), []);
});

t.test('a replacement and the cleanup of a failure delete only recorded objects', async (t) => {
  const location = locationOf(proxy.endpoint, await server.newBucket(), 'p/');
  t.equal((await publish(location, { a: '1', b: '1' })).error, null);
  const storage = await open(location);
  for (const name of ['bundle/guest', 'bundle-2/x', 'sibling']) await put(storage, name, 'guest');
  proxy.seen.length = 0;
  t.equal((await publish(location, { a: '2', c: '2' })).error, null);
  t.same(requests('DELETE'), ['p/bundle/b']);
  const copies = proxy.seen.filter(({ method, url }) => method === 'DELETE' && url.includes('/kept-'));
  t.equal(copies.length, 2, 'and its own copies of replaced and removed files');

  proxy.seen.length = 0;
  proxy.judge = ({ method, url }) =>
    method === 'PUT' && url.includes('/bundle/e') ? { status: 400, code: 'InvalidRequest' } : 'pass';
  t.match(await publish(location, { a: '2', c: '2', d: '3', e: '3' }), { action: 'error' });
  t.same(
    requests('DELETE').sort(),
    ['p/bundle/d', 'p/bundle/e'],
    'objects that it created, or may have created',
  );
  t.same(await catalogMismatches(storage), []);
  proxy.judge = () => 'pass';
  t.equal((await publish(location, { a: '2', c: '2', d: '3', e: '3' })).error, null);

  proxy.seen.length = 0;
  proxy.judge = ({ method, url }) =>
    method === 'PUT' && url.endsWith('/fresh/b') ? { status: 400, code: 'InvalidRequest' } : 'pass';
  t.match(await publish(location, { a: '1', b: '1' }, { destinationPath: 'fresh' }), { action: 'error' });
  t.same(requests('DELETE'), ['p/fresh/.publisher.json', 'p/fresh/a', 'p/fresh/b'], 'the state object, too');
  for (const name of ['bundle/guest', 'bundle-2/x', 'sibling'])
    t.equal((await snapshot(storage)).get(name), 'guest');
});

t.test('force deletes only below the prefix of the bundle', async (t) => {
  const bucket = await server.newBucket();
  const location = locationOf(proxy.endpoint, bucket, 'p/');
  const whole = await open(locationOf(server.endpoint, bucket));
  const others = ['p', 'p2/x', 'other', 'p/bundle', 'p/bundle2/x', 'p/y'];
  for (const name of [...others, 'p/bundle/x', 'p/bundle/deep//odd']) await put(whole, name, name);
  t.match(await publish(location, { a: 'a' }), { action: 'fail_unmanaged' });
  t.match(await publish(location, { a: 'a' }, { force: true }), { action: 'force_replace', error: null });
  t.same(
    [...(await snapshot(whole)).keys()].sort(),
    [...others, 'p/bundle/.publisher.json', 'p/bundle/a'].sort(),
  );
});

t.test('force at the root of a bucket requires allow_bucket_root', async (t) => {
  const location = locationOf(proxy.endpoint, await server.newBucket());
  const storage = await open(location);
  for (const name of ['mine', 'deep/yours']) await put(storage, name, name);
  for (const dryRun of [true, false]) {
    proxy.seen.length = 0;
    const refused = await publish(location, { a: 'a' }, { force: true, destinationPath: '.', dryRun });
    t.match(refused, {
      action: 'error',
      error: { code: 'bucket_root_protected', hint: /allow_bucket_root/ },
    });
    t.same(changing(proxy.seen), [], 'nothing was written or deleted');
  }
  t.same([...(await snapshot(storage)).keys()].sort(), ['deep/yours', 'mine']);
  const allowed = { ...location, allowBucketRoot: true };
  const done = await publish(allowed, { a: 'a' }, { force: true, destinationPath: '.' });
  t.match(done, { action: 'force_replace', error: null });
  t.same([...(await snapshot(storage)).keys()].sort(), ['.publisher.json', 'a']);
  const again = await publish(location, { a: 'b' }, { force: true, destinationPath: '.' });
  t.match(again, { action: 'replace_catalog', error: null }, 'force without an effect needs no permission');
});

t.test(
  'missing permissions are a clear error and lose nothing; with them, the next run finishes',
  async (t) => {
    const bucket = await server.newBucket();
    const writer = await server.addUser('writer');
    const arn = `arn:aws:s3:::${bucket}`;
    const allow = (Action: string[], Resource: string[]): object => ({
      Effect: 'Allow',
      Principal: { AWS: [`arn:aws:iam:::user/${writer.id}`] },
      Action,
      Resource,
    });
    const policy = async (...Statement: object[]): Promise<void> => {
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await server.client().send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
    };
    const location = locationOf(proxy.endpoint, bucket, 'p/');
    const objects = ['s3:GetObject', 's3:PutObject', 's3:DeleteObject', 's3:AbortMultipartUpload'];
    await t.rejects(publish(location, { a: '1' }, { user: writer }), {
      code: 'storage_denied',
      hint: /rights/,
    });

    await policy(allow(['s3:ListBucket', ...objects], [arn, `${arn}/*`]));
    t.equal((await publish(location, { a: '1', 'b/c': '1' }, { user: writer })).error, null);
    // May write everything except objects below `b/`.
    await policy(allow(['s3:ListBucket', ...objects], [arn, `${arn}/*`]), {
      ...allow(['s3:PutObject'], [`${arn}/p/bundle/b/*`]),
      Effect: 'Deny',
    });
    const denied = await publish(location, { a: '2', 'b/c': '2' }, { user: writer });
    t.match(denied, {
      action: 'error',
      error: { code: 'storage_denied', message: /b\/c/, hint: /docs\/s3\.md/ },
    });
    t.same(
      await catalogMismatches(await open(location, writer)),
      [],
      'the state does not cover overwritten files',
    );

    await server.client().send(new DeleteBucketPolicyCommand({ Bucket: bucket }));
    await policy(allow(['s3:ListBucket', ...objects], [arn, `${arn}/*`]));
    t.equal((await publish(location, { a: '2', 'b/c': '2' }, { user: writer })).error, null);
    t.match(await publish(location, { a: '2', 'b/c': '2' }, { user: writer }), { action: 'skip_same' });
  },
);

t.test('a server that becomes unreachable midway is reported, and the next run finishes', async (t: Test) => {
  const location = locationOf(proxy.endpoint, await server.newBucket(), 'p/');
  t.equal((await publish(location, { a: '1', b: '1' })).error, null);
  let writes = 0;
  proxy.judge = ({ method }) => {
    if (method === 'PUT') writes += 1;
    return writes > 8 ? { status: 503, code: 'SlowDown' } : 'pass';
  };
  const failed = await publish(location, { a: '2', b: '2', c: '2', d: '2' });
  t.match(failed, { action: 'error', error: { retryable: true } });
  proxy.judge = () => 'pass';
  await server.restart();
  t.same(await catalogMismatches(await open(location)), []);
  t.equal((await publish(location, { a: '2', b: '2', c: '2', d: '2' })).error, null);
  t.match(await publish(location, { a: '2', b: '2', c: '2', d: '2' }), { action: 'skip_same' });
});
