import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { holdLease } from './held.ts';
import { configuration, manifest, program, waybill, web } from './process.ts';

/**
 * A run that waits for a lease stays active for as long as a test needs. Signals arrive during that time, so
 * no test depends on speed.
 */

interface Stopped {
  code: number | null;
  stdout: string;
  stderr: string;
}

for (const [signal, code] of [
  ['SIGHUP', 129],
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  t.test(`${signal} lets a run clean up and report it; the next run finishes`, async (t) => {
    const place = layOut(t);
    const lock = holdLease(path.join(place, 'web/one'));
    const before = contents(place);
    const ended = await stopped(t, place, ['run'], (kill) => {
      kill(signal);
      // A closed terminal sends it twice.
      if (signal === 'SIGHUP') kill(signal);
    });
    t.equal(ended.code, code);
    t.match(ended.stderr, `${signal}: stopping and cleaning up; a second signal ends it immediately`);
    t.match(ended.stdout, new RegExp(`stopped by ${signal}[^]*\\nstopped {2}.*; run again to finish.*\\n$`));
    t.same(contents(place), before, "no files are left, and the other's lock is unchanged");
    rmSync(lock);
    t.match(waybill(['run', '-c', 'c.yml'], { cwd: place }), { status: 0, stdout: /publish_new/ });
    t.equal(waybill(['verify', '-c', 'c.yml'], { cwd: place }).status, 0);
  });

t.test('a second signal ends a run immediately', async (t) => {
  const place = layOut(t);
  holdLease(path.join(place, 'web/one'));
  // Both are pending before the process resumes, so the second arrives even if the first has an effect.
  const ended = await stopped(t, place, ['run'], (kill) => {
    kill('SIGSTOP');
    kill('SIGINT');
    kill('SIGTERM');
    kill('SIGCONT');
  });
  // The system may deliver them in either order.
  t.match(String(ended.code), /^(130|143)$/);
  t.equal(ended.stderr.match(/stopping and cleaning up/g)?.length, 1);
});

t.test('reconcile-state and prune stop too, and change nothing', async (t) => {
  const place = layOut(t);
  t.equal(waybill(['run', '-c', 'c.yml'], { cwd: place }).status, 0);
  rmSync(path.join(place, 'web/one/a.txt'));
  holdLease(path.join(place, 'web/one'));
  const before = contents(place);
  for (const command of ['reconcile-state', 'prune --apply']) {
    const ended = await stopped(t, place, [...command.split(' '), '-p', 'maps', '-d', 'web'], (kill) =>
      kill('SIGINT'),
    );
    t.equal(ended.code, 130, command);
    t.same(contents(place), before, command);
  }
});

function layOut(t: Test): string {
  const files = ['a.txt', 'b.txt'];
  return t.testdir({
    source: { one: { 'manifest.json': manifest(files), 'a.txt': 'a', 'b.txt': 'b' } },
    'c.yml': configuration([`${web}, retention: {prune: {enabled: true, keep_latest: 1}}`]),
  });
}

/** Every file below a directory. Only the times of its directory show that a lock came and went. */
function contents(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.join(entry.parentPath, entry.name));
  return Object.fromEntries(files.sort().map((file) => [file, readFileSync(file, 'utf8')]));
}

/**
 * Starts a command, waits until it reaches the lock, lets `act` send its signals, and returns how the
 * command ended.
 */
async function stopped(
  t: Test,
  cwd: string,
  [command = '', ...more]: string[],
  act: (kill: (signal: NodeJS.Signals) => void) => void,
): Promise<Stopped> {
  const child = spawn(process.execPath, [program, command, '-c', 'c.yml', '--verbose', ...more], {
    cwd,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended: Stopped = { code: null, stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (ended.stdout += chunk.toString()));
  const closed = once(child, 'close') as Promise<[number | null]>;
  let hasActed = false;
  for await (const line of createInterface({ input: child.stderr })) {
    ended.stderr += `${line}\n`;
    if (hasActed || !line.includes('.publisher.lock')) continue;
    hasActed = true;
    act((signal) => child.kill(signal));
  }
  t.ok(hasActed, 'it reached the lock');
  [ended.code] = await closed;
  return ended;
}
