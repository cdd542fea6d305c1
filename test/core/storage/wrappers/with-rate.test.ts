import { readFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { inParallel } from '../../../../src/core/lib/parallel.ts';
import type { StorageLocation } from '../../../../src/core/storage/backends.ts';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { storageOpener } from '../../../../src/core/storage/open-storage.ts';
import { s3Storage } from '../../../../src/core/storage/s3/s3-storage.ts';
import type { Body, Storage, WriteOptions } from '../../../../src/core/storage/storage.ts';
import { withRate } from '../../../../src/core/storage/wrappers/with-rate.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';
import { manualClock } from '../../../workers/manual-clock.ts';

const rate = 2 << 20;
const content: WriteOptions = { mode: 'scratch', isContent: true };

/** Files of 3 MiB in total, some of them empty or small. */
const files = [0, 1, 9_000, 64 << 10, 100 << 10, 2 << 20].map((size) => Buffer.alloc(size, `${size} `));
files.push(Buffer.alloc((3 << 20) - files.reduce((all, { length }) => all + length, 0), 'rest '));

/**
 * Publishes the files concurrently through the opener, as a run does, and checks their bytes. A second
 * storage that is open at the same time has a limit of its own.
 */
async function keepsRate(t: Test, location: StorageLocation, secrets = noSecrets): Promise<void> {
  const open = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const storage = await open(location, { readOnly: false, maxRate: rate });
  t.teardown(() => storage.close());
  const began = systemClock.monotonic();
  let counted = 0;
  await inParallel(files.entries(), 8, async ([index, bytes]) => {
    const options = {
      ...content,
      digest: digestOf(bytes),
      onBytes: (count: number) => void (counted += count),
    };
    await storage.write(key(`d/${index}`), bytesBody(bytes), options);
  });
  // Never faster than the limit, however fast the machine is. How much slower depends on the machine.
  t.ok(systemClock.monotonic() - began >= 1_490, '3 MiB at 2 MiB/s take 1.5 s');
  t.equal(counted, 3 << 20, 'progress counts every byte once');
  for (const [index, bytes] of files.entries())
    t.ok(bytes.equals(await readAll(storage, key(`d/${index}`), 4 << 20)), `file ${index}`);
}

t.test('the limit applies to a local directory', async (t) => {
  const root = t.testdir();
  await keepsRate(t, { backend: 'local', path: root });
  t.equal(readFileSync(path.join(root, 'd/1'), 'utf8'), '1');
});

t.test('the limit applies to an SFTP server', async (t) => {
  const server = await startSshd(t);
  await keepsRate(t, sftpLocationOf(server, path.join(server.root, 'www')));
});

t.test('the limit applies to S3, also for an object in parts', async (t) => {
  const server = await startRadosgw(t);
  const secrets = secretsOf(server.user);
  const bucket = await server.newBucket();
  await keepsRate(t, locationOf(server.endpoint, bucket, 'whole/'), secrets);
  const options = { clock: systemClock, log: silentLog, secrets, partBytes: 5 << 20 };
  const driver = await s3Storage(locationOf(server.endpoint, bucket, 'parts/'), options);
  const storage = withRate(driver, systemClock, 8 << 20);
  t.teardown(() => storage.close());
  const bytes = Buffer.alloc(12 << 20, 'part ');
  const began = systemClock.monotonic();
  await storage.write(key('large'), bytesBody(bytes), { ...content, mode: 'replace' });
  t.ok(systemClock.monotonic() - began >= 1_490, '12 MiB at 8 MiB/s take 1.5 s');
  t.ok(bytes.equals(await readAll(storage, key('large'), 16 << 20)));
});

t.test('locks and catalogs do not wait for content', async (t) => {
  const storage = withRate(memoryStorage({ flavour: 'files' }), manualClock(), 1024);
  const abort = new AbortController();
  const stuck = storage.write(key('big'), bytesBody(Buffer.alloc(1 << 20)), {
    ...content,
    signal: abort.signal,
  });
  await storage.write(key('lock'), bytesBody('held'), { mode: 'create' });
  await storage.write(key('catalog'), bytesBody(Buffer.alloc(1 << 16)), { mode: 'replace' });
  t.equal(await storage.duplicate!(key('catalog'), key('copy')), 'link');
  await storage.rename!([{ from: key('copy'), to: key('copied') }]);
  const reason = new Error('stopped');
  abort.abort(reason);
  await t.rejects(stuck, reason, 'and an abort ends the wait');
});

t.test('a body that is resent counts again', async (t) => {
  const clock = manualClock();
  const inner = memoryStorage({ flavour: 'files' });
  let opened = 0;
  const twice: Storage['write'] = async (at, body, options) => {
    for await (const chunk of body.open()) opened += chunk.byteLength;
    return inner.write(at, body, options);
  };
  const storage = withRate({ ...inner, write: twice }, clock, 10_000);
  const body: Body = bytesBody(Buffer.alloc(10_000));
  const written = storage.write(key('a'), body, content);
  await clock.advance(1_001);
  t.equal(opened, 10_000);
  t.equal(await storage.stat(key('a')), undefined);
  await clock.advance(1_001);
  t.match(await written, { size: 10_000 });
});
