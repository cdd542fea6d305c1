import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { SftpLocation } from '../../src/core/storage/sftp/sftp-location.ts';
import { sftpStorage } from '../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../services/sshd.ts';
import { startPublisher } from './other-publisher.ts';
import { checkQuick, leaseTimes, overtaking, publishHere } from './two-processes.ts';
import { bundlePath, type Files } from './world.ts';

/** Two real processes on one SFTP destination, and real signals. */

const slow: Files = { 'a.txt': 'slow', 'slow.txt': 's'.repeat(5000) };
const server = await startSshd(t);

t.test('a process suspended within a file does not commit after it lost its lease', async (t) => {
  const location = sftpLocationOf(server, path.join(server.root, 'stopped'));
  const child = startPublisher(t, { sftp: location, files: slow, leaseTimes });
  await child.line('staging');
  child.process.kill('SIGSTOP');
  t.equal((await publish(location, overtaking)).error, null);
  child.process.kill('SIGCONT');
  child.process.stdin?.write('go on\n');
  const { action } = JSON.parse(await child.line('{')) as { action: string };
  t.equal(action, 'error');
  await check(t, location);
});

t.test('a resumed process that creates its staging directory again does not commit', async (t) => {
  const location = sftpLocationOf(server, path.join(server.root, 'staged-again'));
  const child = startPublisher(t, { sftp: location, files: slow, leaseTimes });
  await child.line('staging');
  child.process.kill('SIGSTOP');
  t.equal((await publish(location, overtaking)).error, null);
  // With the directory of another attempt next to it, its own can be created again.
  const staging = path.join(location.path, bundlePath, '.publisher.tmp');
  mkdirSync(path.join(staging, 'another'), { recursive: true });
  child.process.kill('SIGCONT');
  child.process.stdin?.write('go on\n');
  t.match(JSON.parse(await child.line('{')), { action: 'error', code: 'lease_lost' });
  t.same(readdirSync(staging), ['another']);
  rmSync(staging, { recursive: true });
  await check(t, location);
});

t.test('a publisher that waits for a live one continues when that one is done', async (t) => {
  const location = sftpLocationOf(server, path.join(server.root, 'live'));
  const child = startPublisher(t, { sftp: location, files: slow, leaseTimes });
  await child.line('staging');
  const waiting = publish(location);
  child.process.stdin?.write('go on\n');
  t.match(JSON.parse(await child.line('{')), { action: 'publish_new', code: null });
  t.match(await waiting, { action: 'replace_catalog', error: null });
  await check(t, location);
});

t.test('the next publication immediately replaces a killed process', async (t) => {
  const location = sftpLocationOf(server, path.join(server.root, 'killed'));
  const child = startPublisher(t, { sftp: location, files: slow, leaseTimes });
  await child.line('staging');
  child.process.kill('SIGKILL');
  await once(child.process, 'exit');
  const result = await publish(location);
  t.match(result, { action: 'replace_catalog', reason: { code: 'attempt_interrupted' }, error: null });
  await check(t, location);
});

async function check(t: Test, location: SftpLocation): Promise<void> {
  const storage = await open(location);
  await checkQuick(t, storage);
  await storage.close();
}

async function open(location: SftpLocation): Promise<Storage> {
  return sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
}

async function publish(location: SftpLocation, times = leaseTimes): ReturnType<typeof publishHere> {
  const storage = await open(location);
  try {
    return await publishHere(storage, times);
  } finally {
    await storage.close();
  }
}
