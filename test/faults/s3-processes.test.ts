import { once } from 'node:events';
import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { S3Location } from '../../src/core/storage/s3/s3-location.ts';
import { s3Storage } from '../../src/core/storage/s3/s3-storage.ts';
import { locationOf, secretsOf, startRadosgw } from '../services/radosgw.ts';
import { type OtherPublisher, startPublisher } from './other-publisher.ts';
import { checkQuick, leaseTimes, overtaking, publishHere } from './two-processes.ts';
import type { Files } from './world.ts';

/**
 * Two real processes on one S3 destination, and real signals. The slow one is in the middle of an upload in
 * parts.
 */

const partBytes = 1024;
const slow: Files = { 'a.txt': 'slow', 'slow.txt': 's'.repeat(5 * partBytes) };

const server = await startRadosgw(t);
const bucket = await server.newBucket();

t.test('a process suspended during an upload does not commit after it lost its lease', async (t) => {
  const location = locationOf(server.endpoint, bucket, 'stopped/');
  const child = start(t, location);
  await child.line('staging');
  t.equal((await uploads()).length, 1, 'an upload is active');
  child.process.kill('SIGSTOP');
  t.equal((await publish(location, overtaking)).error, null);
  t.same(await uploads(), [], 'the next publisher aborts it');
  child.process.kill('SIGCONT');
  child.process.stdin?.write('go on\n');
  const { action, code } = JSON.parse(await child.line('{')) as { action: string; code: string };
  t.equal(action, 'error');
  t.ok(['lease_lost', 'storage_permanent'].includes(code), code);
  await check(t, location);
});

t.test('a publisher that waits for a live one continues when that one is done', async (t) => {
  const location = locationOf(server.endpoint, bucket, 'live/');
  const child = start(t, location);
  await child.line('staging');
  const waiting = publish(location);
  child.process.stdin?.write('go on\n');
  t.match(JSON.parse(await child.line('{')), { action: 'publish_new', code: null });
  t.match(await waiting, { action: 'replace_catalog', error: null });
  await check(t, location);
});

t.test('the next publication immediately replaces a killed process, and aborts its upload', async (t) => {
  const location = locationOf(server.endpoint, bucket, 'killed/');
  const child = start(t, location);
  await child.line('staging');
  child.process.kill('SIGKILL');
  await once(child.process, 'exit');
  t.equal((await uploads()).length, 1, 'its upload remains');
  const result = await publish(location);
  t.match(result, { action: 'replace_catalog', reason: { code: 'attempt_interrupted' }, error: null });
  t.same(await uploads(), []);
  await check(t, location);
});

t.test('the same if the next publication is additive', async (t) => {
  const location = locationOf(server.endpoint, bucket, 'killed-additive/');
  const child = start(t, location);
  await child.line('staging');
  child.process.kill('SIGKILL');
  await once(child.process, 'exit');
  t.equal((await uploads()).length, 1);
  t.equal((await publish(location, leaseTimes, 'additive')).error, null);
  t.same(await uploads(), []);
});

async function uploads(): Promise<unknown[]> {
  const { Uploads } = await server.client().send(new ListMultipartUploadsCommand({ Bucket: bucket }));
  return Uploads ?? [];
}

async function open(location: S3Location): ReturnType<typeof s3Storage> {
  const secrets = secretsOf(server.user);
  return s3Storage(location, { clock: systemClock, log: silentLog, secrets, partBytes });
}

async function check(t: Test, location: S3Location): Promise<void> {
  await checkQuick(t, await open(location));
  t.same(await uploads(), []);
}

async function publish(
  location: S3Location,
  times = leaseTimes,
  workflow?: 'additive' | 'replacement',
): ReturnType<typeof publishHere> {
  return publishHere(await open(location), times, workflow);
}

function start(t: Test, location: S3Location): OtherPublisher {
  return startPublisher(t, { s3: { location, user: server.user, partBytes }, files: slow, leaseTimes });
}
