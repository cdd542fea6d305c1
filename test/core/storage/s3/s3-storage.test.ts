import { HeadObjectCommand, PutBucketVersioningCommand } from '@aws-sdk/client-s3';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { s3Storage } from '../../../../src/core/storage/s3/s3-storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { storageContract } from '../../../contract/storage.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';

const server = await startRadosgw(t);
const bucket = await server.newBucket();
const retry = { retries: 5, baseMs: 20, capMs: 20 };
const options = { clock: systemClock, log: silentLog, secrets: secretsOf(server.user), retry };
let worlds = 0;

t.test('S3', (t) =>
  storageContract(t, async () => {
    worlds += 1;
    const location = locationOf(server.endpoint, bucket, `world ${worlds}/`);
    const small = { partBytes: 5 << 20, pageSize: 70 };
    return { open: async () => s3Storage(location, { ...options, ...small }), page: 70 };
  }),
);

t.test('S3, a whole bucket, through a view of a subdirectory', (t) =>
  storageContract(
    t,
    async () => {
      const location = locationOf(server.endpoint, await server.newBucket());
      return { open: async () => subdirectory(await s3Storage(location, options), key('deep/inside')) };
    },
    { variantOf: 'S3' },
  ),
);

t.test('S3, a bucket with versions', (t) =>
  storageContract(
    t,
    async () => {
      const Bucket = await server.newBucket();
      await setVersioning(Bucket, 'Enabled');
      const location = locationOf(server.endpoint, Bucket, 'p/');
      return { open: async () => s3Storage(location, { ...options, pageSize: 70 }), page: 70 };
    },
    { variantOf: 'S3' },
  ),
);

async function setVersioning(Bucket: string, Status: 'Enabled' | 'Suspended'): Promise<void> {
  const VersioningConfiguration = { Status };
  await server.client().send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
}

t.test('an object is kept as a version if the bucket has versions, else as a copy', async (t) => {
  for (const [versioning, by] of [
    ['never', 'copy'],
    ['Enabled', 'version'],
    ['Suspended', 'copy'],
  ] as const) {
    const Bucket = await server.newBucket();
    if (versioning !== 'never') await setVersioning(Bucket, 'Enabled');
    if (versioning === 'Suspended') await setVersioning(Bucket, 'Suspended');
    const storage = await s3Storage(locationOf(server.endpoint, Bucket, 'p/'), options);
    t.teardown(() => storage.close());
    const headers = { contentType: 'text/html; charset=utf-8', cacheControl: 'max-age=60' };
    const name = key('späce #?%25+.html');
    await storage.write(name, bytesBody('old'), { mode: 'replace', headers });
    const before = await storage.stat(name);
    const kept = await storage.backUp(name, key('.publisher.tmp/1/kept'));
    t.match(kept, { method: by }, versioning);
    if (kept === null) return;
    for (const change of ['replaced', 'removed']) {
      if (change === 'removed') await storage.remove(name);
      else await storage.write(name, bytesBody('new one'), { mode: 'replace', headers: {} });
      await storage.restore(kept);
      const head = new HeadObjectCommand({ Bucket, Key: `p/${name}` });
      t.match(
        await server.client().send(head),
        {
          ContentLength: 3,
          ContentType: headers.contentType,
          CacheControl: headers.cacheControl,
          Metadata: { 'waybill-sha256': digestOf('old').slice('sha256:'.length) },
        },
        `${versioning}, ${change}: with its headers and metadata`,
      );
      t.equal((await storage.stat(name))?.version, before?.version);
    }
  }
});

t.test("copies an object that is older than the bucket's versioning", async (t) => {
  const Bucket = await server.newBucket();
  const storage = await s3Storage(locationOf(server.endpoint, Bucket), options);
  t.teardown(() => storage.close());
  await storage.write(key('early'), bytesBody('early'), { mode: 'replace' });
  await setVersioning(Bucket, 'Enabled');
  await storage.write(key('late'), bytesBody('late'), { mode: 'replace' });
  t.match(await storage.backUp(key('late'), key('.publisher.tmp/1/0')), { method: 'version' });
  t.match(await storage.backUp(key('early'), key('.publisher.tmp/1/1')), { method: 'copy' });
});

t.test('a duplicate has the headers of the object', async (t) => {
  const storage = await s3Storage(locationOf(server.endpoint, bucket, 'duplicates/'), options);
  t.teardown(() => storage.close());
  const headers = { contentType: 'text/x-duplicate; charset=utf-8', cacheControl: 'max-age=7' };
  await storage.write(key('one'), bytesBody('x'), { mode: 'replace', headers });
  t.equal(await storage.duplicate(key('one'), key('two')), 'copy');
  const found = await server.client().send(new HeadObjectCommand({ Bucket: bucket, Key: 'duplicates/two' }));
  t.match(found, { ContentType: headers.contentType, CacheControl: headers.cacheControl });
});
