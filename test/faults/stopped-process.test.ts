import { once } from 'node:events';
import t, { type Test } from 'tap';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import { type OtherPublisher, startPublisher } from './other-publisher.ts';
import { checkQuick, leaseTimes, overtaking, publishHere } from './two-processes.ts';
import type { Files } from './world.ts';

// If it runs without the runner, the file would have a timeout of half a minute.
t.setTimeout(0);

/** Two real processes on one directory, and real signals. */
const slow: Files = { 'a.txt': 'slow', 'slow.txt': 's' };

t.test('a process suspended during publication does not commit after it lost its lease', async (t) => {
  const root = t.testdir();
  const child = start(t, root);
  await child.line('staging');
  child.process.kill('SIGSTOP');
  t.equal((await publish(root, overtaking)).error, null);
  child.process.kill('SIGCONT');
  child.process.stdin?.write('go on\n');
  t.match(JSON.parse(await child.line('{')), { action: 'error', code: 'lease_lost' });
  await check(t, root);
});

t.test('a publisher that waits for a live one continues when that one is done', async (t) => {
  const root = t.testdir();
  const child = start(t, root);
  await child.line('staging');
  const waiting = publish(root);
  child.process.stdin?.write('go on\n');
  t.match(JSON.parse(await child.line('{')), { action: 'publish_new', code: null });
  t.match(await waiting, { action: 'replace_catalog', error: null });
  await check(t, root);
});

t.test('the next publication immediately replaces a killed process, which is known to be dead', async (t) => {
  const root = t.testdir();
  const child = start(t, root);
  await child.line('staging');
  child.process.kill('SIGKILL');
  await once(child.process, 'exit');
  const result = await publish(root);
  t.match(result, { action: 'replace_catalog', reason: { code: 'attempt_interrupted' }, error: null });
  await check(t, root);
});

async function check(t: Test, root: string): Promise<void> {
  await checkQuick(t, await localStorage(root));
}

async function publish(root: string, times = leaseTimes): ReturnType<typeof publishHere> {
  return publishHere(await localStorage(root), times);
}

function start(t: Test, root: string): OtherPublisher {
  return startPublisher(t, { root, files: slow, leaseTimes });
}
