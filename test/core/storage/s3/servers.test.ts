import t from 'tap';
import { discoverBundles, loadBundle } from '../../../../src/core/bundle/discover.ts';
import { selectFiles } from '../../../../src/core/bundle/pack/select-files.ts';
import { surveyDestination } from '../../../../src/core/catalog/managed-paths.ts';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf, hexOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody, readAll, storedBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { BucketClient } from '../../../../src/core/storage/s3/s3-client.ts';
import type { S3Location } from '../../../../src/core/storage/s3/s3-location.ts';
import { s3Storage, type S3StorageOptions } from '../../../../src/core/storage/s3/s3-storage.ts';
import type { ConditionalWrites, Storage } from '../../../../src/core/storage/storage.ts';
import { withRetry } from '../../../../src/core/storage/wrappers/with-retry.ts';
import { storageContract } from '../../../contract/storage.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';
import { type SeenRequest, startS3Proxy, type Verdict } from '../../../services/s3-proxy.ts';

/**
 * Real servers: they support fewer conditions than they claim, fail, disconnect, truncate listings, and
 * reject requests.
 */

const server = await startRadosgw(t);
const proxy = await startS3Proxy(t, server);
const bucket = await server.newBucket();
const options: S3StorageOptions = {
  clock: systemClock,
  log: silentLog,
  secrets: secretsOf(server.user),
  partBytes: 1 << 20,
  retry: { retries: 3, baseMs: 1, capMs: 1 },
};
let prefixes = 0;

function place(): S3Location {
  prefixes += 1;
  return locationOf(proxy.endpoint, bucket, `place-${prefixes}/`);
}

/** A storage as returned by `context.openStorage`, with short pauses. */
async function open(location = place(), more: Partial<S3StorageOptions> = {}): Promise<Storage> {
  const storage = await s3Storage(location, { ...options, ...more });
  return withRetry(storage, { policy: { retries: 3, baseMs: 1, capMs: 1 }, clock: systemClock });
}

const put = async (storage: Storage, name: string, text: string): Promise<unknown> =>
  storage.write(key(name), bytesBody(text), { mode: 'replace' });

async function failure(promise: Promise<unknown>): Promise<WaybillError> {
  const outcome = await promise.catch((error: unknown) => error);
  if (outcome instanceof WaybillError) return outcome;
  throw new Error(`no failure: ${String(outcome)}`);
}

t.beforeEach(() => {
  proxy.judge = () => 'pass';
  proxy.seen.length = 0;
});

const kinds: Record<string, { honored: ConditionalWrites; judge: (request: SeenRequest) => Verdict }> = {
  'that ignores conditions': {
    honored: 'none',
    judge: ({ ifMatch, ifNoneMatch }) =>
      (ifMatch ?? ifNoneMatch) === undefined ? 'pass' : 'without_condition',
  },
  'that answers 501 to conditions': {
    honored: 'none',
    judge: ({ ifMatch, ifNoneMatch }) =>
      (ifMatch ?? ifNoneMatch) === undefined ? 'pass' : { status: 501, code: 'NotImplemented' },
  },
  'that ignores If-Match': {
    honored: 'create',
    judge: ({ ifMatch }) => (ifMatch === undefined ? 'pass' : 'without_condition'),
  },
  'that wants versions in quotes': {
    honored: 'full',
    judge: ({ ifMatch }) => {
      if (ifMatch === undefined) return 'pass';
      const [, version] = /^"(.*)"$/.exec(ifMatch) ?? [];
      return version === undefined ? { status: 412, code: 'PreconditionFailed' } : { with_version: version };
    },
  },
};

for (const [name, { honored, judge }] of Object.entries(kinds))
  t.test(`detects a server ${name}`, async (t) => {
    proxy.judge = judge;
    const location = place();
    const warnings: object[] = [];
    const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
    const storage = await open(location, { log });
    t.equal(await storage.facts.conditionalWrites(), honored);
    t.equal(await storage.facts.conditionalWrites(), honored, 'and probed once');
    t.equal(warnings.length, honored === 'full' ? 0 : 1, 'a warning if two publishers could collide');
    t.same(await names(storage), [], 'the probe leaves no objects');
    t.test(`a server ${name} passes the contract`, async (t) => {
      t.before(() => (proxy.judge = judge));
      t.beforeEach(() => (proxy.judge = judge));
      await storageContract(
        t,
        async () => {
          const location = place();
          return { open: async () => s3Storage(location, { ...options, pageSize: 90 }), page: 90 };
        },
        { variantOf: name },
      );
    });
  });

t.test('a storage opened as read-only writes nothing, not even a probe', async (t) => {
  const storage = await open(place(), { readOnly: true });
  t.equal((await failure(storage.facts.conditionalWrites())).code, 'storage_denied');
  for (const work of [put(storage, 'a', 'a'), storage.remove(key('a')), storage.removeTree(key('a'))])
    t.equal((await failure(work)).code, 'storage_denied');
  t.same([...new Set(proxy.seen.map(({ method }) => method))], ['GET']);
});

t.test('retries a temporary 503, 500 or broken connection, at each call', async (t) => {
  const passing: Verdict[] = [
    { status: 503, code: 'SlowDown' },
    { status: 500, code: 'InternalError' },
    'cut_request',
    'cut_response',
  ];
  for (const verdict of passing) {
    const storage = await open();
    const large = Buffer.alloc(3 << 20, 'x');
    const isBody = verdict === 'cut_request';
    const isAnswer = verdict === 'cut_response';
    const failing = once(verdict, ({ method, url }) =>
      isBody ? method === 'PUT' : !isAnswer || url.includes('list-type=2'),
    );
    proxy.judge = failing.judge;
    await storage.write(key('large'), bytesBody(large), { mode: 'replace' });
    failing.again();
    await put(storage, 'small', 'small');
    failing.again();
    t.same(await readAll(storage, key('small'), 10), Buffer.from('small'));
    t.ok((await readAll(storage, key('large'), 4 << 20)).equals(large));
    failing.again();
    t.same(await names(storage), ['large', 'small']);
    failing.again();
    await storage.remove(key('small'));
    failing.again();
    t.equal(await storage.stat(key('small')), undefined);
    t.ok(
      failing.count() >= (isBody ? 2 : isAnswer ? 1 : 6),
      `${failing.count()} times failed: ${JSON.stringify(verdict)}`,
    );
  }
});

t.test('continues reading if the connection of a source breaks within a file', async (t) => {
  const source = await open();
  const bytes = Buffer.alloc(3 << 20, 'abc');
  await source.write(key('large'), bytesBody(bytes), { mode: 'replace' });
  const failing = once('cut_response', ({ method, url }) => method === 'GET' && url.includes('/large'));
  proxy.judge = failing.judge;
  const target = await open();
  const body = storedBody(source, { key: key('large'), size: bytes.length });
  await target.write(key('copy'), body, { mode: 'replace', digest: digestOf(bytes) });
  t.equal(failing.count(), 1);
  t.ok((await readAll(target, key('copy'), 4 << 20)).equals(bytes));
});

t.test('resends a failed part, not the whole object', async (t) => {
  const storage = await open();
  const failing = once({ status: 503, code: 'SlowDown' }, ({ url }) => url.includes('partNumber=2'));
  proxy.judge = failing.judge;
  await storage.write(key('large'), bytesBody(Buffer.alloc(3 << 20)), { mode: 'replace' });
  const parts = proxy.seen.filter(({ url }) => url.includes('partNumber='));
  t.equal(parts.length, 4);
  t.equal(failing.count(), 1);
});

t.test('aborts an upload that cannot be finished', async (t) => {
  const location = place();
  const storage = await open(location);
  proxy.judge = ({ url }) => (url.includes('partNumber=2') ? { status: 400, code: 'InvalidPart' } : 'pass');
  const write = storage.write(key('large'), bytesBody(Buffer.alloc(3 << 20)), { mode: 'replace' });
  t.equal((await failure(write)).code, 'storage_permanent');
  t.same(await names(storage), []);
  t.ok(proxy.seen.some(({ method, url }) => method === 'DELETE' && url.includes('uploadId=')));
});

t.test('reports a server that stays busy', async (t) => {
  const storage = await open();
  proxy.judge = () => ({ status: 503, code: 'SlowDown', message: 'Please reduce your request rate.' });
  const error = await failure(put(storage, 'a', 'a'));
  t.match(error, { code: 'storage_transient', message: /slow down/, hint: /file_concurrency/ });
});

t.test('detects whether a conditional write with a lost response was applied', async (t) => {
  const storage = await s3Storage(place(), options);
  const failing = once('cut_response', ({ method }) => method === 'PUT');
  await storage.facts.conditionalWrites();
  proxy.judge = ({ method }) => (method === 'PUT' ? failing.judge({ method } as SeenRequest) : 'pass');
  const lost = await storage.write(key('state'), bytesBody('ours'), { mode: 'create' });
  t.equal(lost.version, (await storage.stat(key('state')))?.version);
  proxy.judge = () => 'pass';
  const { version } = await storage.write(key('state'), bytesBody('theirs'), { mode: 'replace' });
  const busy = once({ status: 409, code: 'ConditionalRequestConflict' }, ({ method }) => method === 'PUT');
  proxy.judge = busy.judge;
  const late = storage.write(key('state'), bytesBody('late'), {
    mode: 'replace',
    ifVersion: lost.version ?? '',
  });
  t.equal((await failure(late)).code, 'storage_conflict');
  t.equal(busy.count(), 1);
  t.equal((await storage.stat(key('state')))?.version, version);
});

t.test('a truncated listing is an error', async (t) => {
  const storage = await open();
  proxy.judge = () => ({
    status: 200,
    body: `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>`,
  });
  t.match(await failure(names(storage)), { code: 'storage_permanent', message: /truncated/ });
});

t.test('the page of another server does not count as an empty destination', async (t) => {
  const storage = await open();
  for (const status of [200, 404]) {
    proxy.judge = () => ({ status, body: '<html><body>Welcome to nginx!</body></html>' });
    if (status === 404) t.equal((await failure(readAll(storage, key('a'), 10))).code, 'storage_permanent');
    t.match(await failure(open()), { code: 'storage_permanent' }, `${status}`);
  }
});

t.test('lists pages of two keys, for one level and recursively', async (t) => {
  const storage = await open(place(), { pageSize: 2 });
  const all = ['a', 'b/c', 'b/d', 'b/e/f', 'g', 'h/i', 'j/k/l'];
  for (const name of all) await put(storage, name, name);
  t.same(await names(storage), all);
  t.same(await names(storage, false), ['a', 'b', 'g', 'h', 'j']);
  await storage.removeTree(key('b'));
  t.same(await names(storage), ['a', 'g', 'h/i', 'j/k/l']);
});

t.test('reports and removes keys that no bundle can have, and hides directory markers', async (t) => {
  const location = place();
  const odd = ['/leading', 'a//b', 'a//c//d', 'control\u0007', 'a/../b'];
  await putKeys(location, [...odd, 'a/plain']);
  await putKeys(location, ['mark/'], '');
  const storage = await open(location);
  t.same(await names(storage), [...odd, 'a/plain'].sort());
  t.same(await names(storage, false), ['/leading', 'a', 'control\u0007', 'mark'].sort());
  for (const name of odd) await storage.remove(key(name));
  t.same(await names(storage), ['a/plain']);
});

/** Puts objects whose keys the driver itself would not write. */
async function putKeys(location: S3Location, keys: readonly string[], body = 'x'): Promise<void> {
  const { PutObjectCommand } = await import('@aws-sdk/client-s3');
  const client = server.client();
  for (const name of keys)
    await client.send(new PutObjectCommand({ Bucket: bucket, Key: location.prefix + name, Body: body }));
}

t.test('names the keys of a source that map to no path, and ignores them as bundles', async (t) => {
  const location = place();
  const created = '2026-11-20T01:02:03Z';
  const text = (...files: string[]): string =>
    JSON.stringify({ created, files: files.map((each) => ({ path: each })) });
  await putKeys(
    location,
    ['/old/manifest.json', 'site//backup/manifest.json', 'site/../manifest.json'],
    text('one'),
  );
  await putKeys(location, [
    '/old/one',
    'site//backup/one',
    'site/../one',
    'site/a',
    'site/b',
    'other//manifest.json',
  ]);
  await putKeys(location, ['site/manifest.json'], text('a', 'b'));
  const storage = await open(location);
  const found = await discoverBundles(storage);
  t.match(found.candidates, [{ path: 'site', manifest: { files: { length: 2 } } }]);
  t.same(found.invalid, []);
  const skipped = found.warnings.map(({ code, file }) => `${code} ${file}`);
  t.same(skipped, ['key_skipped /', 'key_skipped other//']);
  const { warnings } = await loadBundle(storage, found.candidates[0]!, { backend: 's3', id: 'x' });
  t.match(warnings, [{ code: 'unsafe_path', severity: 'warning', message: /, like 3 more/ }]);
  const selected = await selectFiles(storage, { exclude: ['manifest.json'] });
  t.same(
    selected.files.map(({ path }) => path),
    ['site/a', 'site/b'],
  );
});

t.test('does not assign a catalog under an unmapped key to a bundle path', async (t) => {
  const location = place();
  await putKeys(location, ['/.publisher.json', 'a//.publisher.json', 'b/.publisher.json']);
  const survey = await surveyDestination(await open(location));
  t.same(survey.paths, ['b']);
});

const refusals: [
  string,
  () => Partial<S3Location> | Exclude<Verdict, string>,
  Partial<WaybillError> | object,
][] = [
  [
    'no such bucket',
    () => ({ bucket: 'nobody-made-it' }),
    { code: 'storage_not_found', message: /no bucket "nobody-made-it"/, hint: /create it/ },
  ],
  [
    'nothing listens',
    () => ({ endpoint: 'http://127.0.0.1:1' }),
    { code: 'storage_transient', message: /refused/, hint: /endpoint/ },
  ],
  [
    'no such host',
    () => ({ endpoint: 'http://s3.invalid' }),
    { code: 'storage_transient', message: /host name/ },
  ],
  [
    'no TLS there',
    () => ({ endpoint: proxy.endpoint.replace('http:', 'https:') }),
    { code: 'storage_permanent', hint: /http:\/\// },
  ],
  [
    'another region',
    () => ({ status: 301, code: 'PermanentRedirect', headers: { 'x-amz-bucket-region': 'eu-north-1' } }),
    { code: 'storage_permanent', message: /eu-north-1/, hint: 'set region: eu-north-1' },
  ],
  [
    'a clock that is wrong',
    () => ({
      status: 403,
      code: 'RequestTimeTooSkewed',
      headers: { date: new Date(Date.now() + 3_600_000).toUTCString() },
    }),
    {
      code: 'storage_permanent',
      message: /clock of this machine is (3599|3600|3601) s behind/,
      hint: /clock/,
    },
  ],
  ['full', () => ({ status: 507, code: 'QuotaExceeded' }), { code: 'storage_full' }],
];

for (const [name, change, expected] of refusals)
  t.test(`reports the fix: ${name}`, async (t) => {
    const changed = change();
    const isVerdict = 'status' in changed;
    if (isVerdict) proxy.judge = () => changed;
    t.match(await failure(open(isVerdict ? place() : { ...place(), ...changed })), expected);
  });

t.test('reports wrong credentials without showing them', async (t) => {
  const { user } = server;
  const cases = [
    [
      { ...user, secretAccessKey: 'not-the-secret-0123456789' },
      /secret access key is wrong/,
      /secret_access_key_env/,
    ],
    [{ ...user, accessKeyId: 'NOTTHEKEY' }, /does not know the access key id/, /access_key_id_env/],
  ] as const;
  for (const [credentials, message, hint] of cases) {
    const error = await failure(open(place(), { secrets: secretsOf(credentials) }));
    t.match(error, { code: 'storage_denied', message, hint });
    const shown = JSON.stringify([error, error.cause, { ...(error.cause as object) }, error.stack]);
    for (const secret of [credentials.secretAccessKey, credentials.accessKeyId])
      t.notOk(shown.includes(secret));
  }
});

t.test("reports the server's clock", async (t) => {
  const { facts } = await open();
  t.ok(facts.clockOffsetMs !== null && Math.abs(facts.clockOffsetMs) < 5000, `${facts.clockOffsetMs} ms`);
});

async function names(storage: Storage, recursive = true): Promise<string[]> {
  const found: string[] = [];
  for await (const { key: name } of storage.list('', { recursive })) found.push(name);
  return found.sort();
}

/** Fails the first matching request, and again after each `again`. */
function once(
  verdict: Verdict,
  isMeant: (request: SeenRequest) => boolean,
): { judge: (request: SeenRequest) => Verdict; again: () => void; count: () => number } {
  let armed = true;
  let count = 0;
  return {
    judge(request) {
      if (!armed || !isMeant(request)) return 'pass';
      armed = false;
      count += 1;
      return verdict;
    },
    again: () => (armed = true),
    count: () => count,
  };
}

t.test(
  'a part is signed with its known hash: the server rejects other bytes, and none is hashed twice',
  async (t) => {
    const location = place();
    const { accessKeyId, secretAccessKey } = server.user;
    const wire = new BucketClient({
      location,
      credentials: { accessKeyId, secretAccessKey },
      clock: systemClock,
    });
    const bytes = Buffer.alloc(5 << 20, 'x');
    const name = `${location.prefix}large`;
    const upload = { key: name, uploadId: await wire.beginUpload(name, { sha256: null, headers: {} }) };
    const putPart = (sha256: string | null): Promise<string> =>
      wire.putPart({ ...upload, number: 1 }, bytes, { sha256 });
    // A hash that is computed again on the way would be the right one.
    await t.rejects(putPart(hexOf(digestOf('other bytes'))), WaybillError);
    await wire.completeUpload(upload, [await putPart(hexOf(digestOf(bytes)))]);
    t.equal((await wire.head(name))?.size, bytes.length);
    wire.close();
  },
);
