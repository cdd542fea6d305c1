import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import { localStorage } from '../../src/core/storage/local/driver.ts';
import {
  bundleOf,
  bundlePath,
  contextWith,
  destinationOf,
  litter,
  owner,
  snapshot,
  untruths,
  type Files,
} from './world.ts';

/** Real processes, real signals, and leases of a second instead of minutes. */
const leaseTimes = {
  renewEveryMs: 200,
  abortAfterMs: 600,
  staleAfterMs: 800,
  waitMs: 60_000,
  pollEveryMs: 20,
};
/** Nobody is asleep: a machine that is busy must not look as if. */
const unhurried = { ...leaseTimes, abortAfterMs: 30_000, staleAfterMs: 40_000 };
const slow: Files = { 'a.txt': 'slow', 'slow.txt': 's' };
const quick: Files = { 'a.txt': 'quick', 'quick.txt': 'q' };

t.test(
  'a process stopped in mid-publication and woken after it lost its lease does not commit',
  async (t) => {
    const root = t.testdir();
    const child = start(t, root);
    await child.line('staging');
    child.process.kill('SIGSTOP');
    const overtaking = await publish(root, quick);
    t.equal(overtaking.error, null);
    child.process.kill('SIGCONT');
    child.process.stdin?.write('go on\n');
    t.match(JSON.parse(await child.line('{')), { action: 'error', code: 'lease_lost' });
    await check(t, root);
  },
);

t.test('a publisher that waits for a live one goes on when that one is done', async (t) => {
  const root = t.testdir();
  const child = start(t, root, unhurried);
  await child.line('staging');
  const waiting = publish(root, quick, unhurried);
  child.process.stdin?.write('go on\n');
  t.match(JSON.parse(await child.line('{')), { action: 'publish_new', code: null });
  t.match(await waiting, { action: 'replace_catalog', error: null });
  await check(t, root);
});

t.test('a killed process is overtaken at once, for its death is known', async (t) => {
  const root = t.testdir();
  const child = start(t, root);
  await child.line('staging');
  child.process.kill('SIGKILL');
  await once(child.process, 'exit');
  const patient = { ...leaseTimes, staleAfterMs: 3_600_000 };
  const result = await publish(root, quick, patient);
  t.match(result, { action: 'replace_catalog', reason: { code: 'attempt_interrupted' }, error: null });
  await check(t, root);
});

async function check(t: Test, root: string): Promise<void> {
  const storage = await localStorage(root);
  const files = await snapshot(storage);
  t.equal(files.get(`${bundlePath}/a.txt`), 'quick');
  t.equal(files.get(`${bundlePath}/slow.txt`), undefined);
  t.same(litter(files), []);
  t.same(await untruths(storage), []);
}

async function publish(root: string, files: Files, times = leaseTimes): ReturnType<typeof publishBundle> {
  return publishBundle(
    contextWith(systemClock),
    await localStorage(root),
    {
      bundle: bundleOf(files),
      owner,
      destination: destinationOf('replacement'),
      destinationPath: bundlePath,
    },
    { dryRun: false, force: false, leaseTimes: times },
  );
}

function start(
  t: Test,
  root: string,
  times = leaseTimes,
): { process: ChildProcess; line: (start: string) => Promise<string> } {
  const script = fileURLToPath(new URL('publisher-process.ts', import.meta.url));
  const child = spawn(
    process.execPath,
    ['--import=tsx', script, JSON.stringify({ root, files: slow, leaseTimes: times })],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  t.teardown(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (start: string): Promise<string> => {
    for (let next = await lines.next(); next.done !== true; next = await lines.next())
      if (next.value.startsWith(start)) return next.value;
    throw new Error(`the process ended without a line that begins with ${start}`);
  };
  return { process: child, line };
}
