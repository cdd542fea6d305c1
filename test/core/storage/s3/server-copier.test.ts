import { GetObjectCommand, HeadObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import type { ObjectPlace } from '../../../../src/core/storage/capabilities.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { s3Storage } from '../../../../src/core/storage/s3/s3-storage.ts';
import type { Body, Storage } from '../../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';

/** Bodies that the server already has in another bucket. */

const server = await startRadosgw(t);
const options = { clock: systemClock, log: silentLog, secrets: secretsOf(server.user) };
const name = key('späce #?%25+.html');
const text = '<p>home</p>';
const write = { mode: 'replace', digest: digestOf(text) } as const;
const headers = { contentType: 'text/html; charset=utf-8', cacheControl: 'max-age=60' };

interface Pair {
  source: Storage;
  target: Storage;
  sourceBucket: string;
  targetBucket: string;
}

async function twoBuckets(): Promise<Pair> {
  const [sourceBucket, targetBucket] = [await server.newBucket(), await server.newBucket()];
  const source = await s3Storage(locationOf(server.endpoint, sourceBucket, 'a/'), options);
  const target = await s3Storage(locationOf(server.endpoint, targetBucket, 'b/'), options);
  t.teardown(async () => Promise.all([source.close(), target.close()]));
  return { source: subdirectory(source, key('site')), target, sourceBucket, targetBucket };
}

/** The body of the object, and the number of times that this process read it. */
function bodyAt(storage: Storage): { body: Body; reads: () => number } {
  let reads = 0;
  const open = (): AsyncIterable<Uint8Array> => {
    reads += 1;
    return storage.read(name);
  };
  const size = Buffer.byteLength(text);
  const origin = (): ObjectPlace => storage.placeOf?.(name) as ObjectPlace;
  return { body: { size, open, origin }, reads: () => reads };
}

const client = server.client();

t.test('the server copies an object, with the headers of the write', async (t) => {
  const { source, target, targetBucket } = await twoBuckets();
  await source.write(name, bytesBody(text), { mode: 'replace', headers: { contentType: 'text/plain' } });
  const { body, reads } = bodyAt(source);
  let counted = 0;
  const written = await target.write(name, body, {
    ...write,
    headers,
    onBytes: (count) => (counted += count),
  });
  t.equal(reads(), 0, 'this process reads no bytes');
  t.match(written, { size: text.length, digest: write.digest });
  t.equal(counted, text.length);
  t.equal((await target.stat(name))?.version, written.version);
  const copy = { Bucket: targetBucket, Key: `b/${name}` };
  const { ContentType, CacheControl, Body } = await client.send(new GetObjectCommand(copy));
  t.same([ContentType, CacheControl], [headers.contentType, headers.cacheControl]);
  t.equal(await Body?.transformToString(), text);
  const third = await twoBuckets();
  const again = bodyAt(target);
  await third.target.write(name, again.body, write);
  t.equal(again.reads(), 0, 'a copy can be copied');
});

t.test('reads an object without a matching digest, and rejects it if its bytes differ', async (t) => {
  const { source, target, sourceBucket, targetBucket } = await twoBuckets();
  const at = { Bucket: sourceBucket, Key: `a/site/${name}` };
  await client.send(new PutObjectCommand({ ...at, Body: text }));
  const foreign = bodyAt(source);
  await target.write(name, foreign.body, write);
  t.equal(foreign.reads(), 1, 'another program wrote it');
  await target.remove(name);
  await source.write(name, bytesBody('<p>h0me</p>'), { mode: 'replace' });
  const other = bodyAt(source);
  await t.rejects(target.write(name, other.body, write), { code: 'body_mismatch' });
  t.equal(other.reads(), 1);
  await source.remove(name);
  await t.rejects(target.write(name, bodyAt(source).body, write), { code: 'storage_not_found' });
  const gone = client.send(new HeadObjectCommand({ Bucket: targetBucket, Key: `b/${name}` }));
  await t.rejects(gone, { name: 'NotFound' }, 'nothing was written');
});

t.test('reads a body from another server or from a bucket that cannot be copied', async (t) => {
  const { source, target } = await twoBuckets();
  await source.write(name, bytesBody(text), { mode: 'replace' });
  for (const change of [{ server: 's3 http://127.0.0.1:1' }, { bucket: 'no-such-bucket' }]) {
    const { body, reads } = bodyAt(source);
    const origin = { ...body.origin?.(), ...change } as ObjectPlace;
    await target.write(name, { ...body, origin: () => origin }, write);
    t.equal(reads(), 1, Object.keys(change).join());
    await target.remove(name);
  }
});

t.test('does not copy a body whose lease was lost before', async (t) => {
  const { source, target } = await twoBuckets();
  await source.write(name, bytesBody(text), { mode: 'replace' });
  const { body, reads } = bodyAt(source);
  let calls = 0;
  const origin = (): ObjectPlace => {
    if ((calls += 1) === 2) throw new WaybillError('lease_lost', 'lost');
    return body.origin?.() as ObjectPlace;
  };
  await t.rejects(target.write(name, { ...body, origin }, write), { code: 'lease_lost' });
  t.equal(reads(), 0);
  t.equal(await target.stat(name), undefined);
});
