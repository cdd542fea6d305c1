import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import { claimDirectory, claimStale, openScratch } from '../../../src/workers/staging/claimed-directory.ts';
import { manualClock } from '../manual-clock.ts';

/** Ownership of directories if several processes of a machine share a staging directory. */

t.test('each of any number of concurrent processes gets its own directory', async (t) => {
  const request = { parent: t.testdir(), name: 'content', clock: systemClock };
  for (let round = 0; round < 10; round += 1) {
    const claimed = await Promise.all(Array.from({ length: 6 }, () => claimDirectory(request)));
    t.equal(new Set(claimed.map(({ directory }) => directory)).size, claimed.length);
    for (const one of claimed) await one.release();
    t.same(readdirSync(request.parent), [], 'empty directories are removed');
  }
});

t.test('claims a free directory with any number', async (t) => {
  const request = { parent: t.testdir(), name: 'content', clock: systemClock };
  t.same(await claimStale(request), []);
  t.same(await claimStale({ ...request, parent: path.join(request.parent, 'none') }), []);
  const first = await claimDirectory(request);
  for (const name of ['content-3', 'content-x', 'content-2-old']) mkdirSync(path.join(request.parent, name));
  writeFileSync(path.join(request.parent, 'content-4'), 'no directory');
  const left = await claimStale(request);
  t.same(
    left.map(({ directory }) => path.basename(directory)),
    ['content-3'],
  );
  t.same(await claimStale(request), [], 'it is in use now');
  for (const one of [first, ...left]) await one.release();
  t.same(readdirSync(request.parent).sort(), ['content-2-old', 'content-4', 'content-x']);
});

t.test('keeps the scratch directory of a live process and removes others, with any clock', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'scratch-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const yearMs = 365 * 86_400_000;
  const shifted = (ms: number): Clock => ({ ...systemClock, now: () => new Date(Date.now() + ms) });
  const opened = [await openScratch(root, systemClock)];
  writeFileSync(path.join(opened[0]!.directory, 'bundle.tar'), 'staged');
  for (const [number, ms] of [yearMs, -yearMs].entries()) {
    const dead = path.join(root, `process-${number + 5}`);
    mkdirSync(path.join(dead, 'files', 'upload'), { recursive: true });
    writeFileSync(path.join(dead, 'daemon-0123abcd.sock'), 'of the dead');
    const at = new Date(Date.now() + ms);
    utimesSync(path.join(dead, 'files'), at, at);
    opened.push(await openScratch(root, shifted(ms)));
    t.notOk(existsSync(dead), 'a dead process');
  }
  t.same(readdirSync(opened[0]!.directory), ['bundle.tar'], 'a live process');
  t.equal(new Set(opened.map(({ directory }) => directory)).size, 3);
  for (const one of opened) await one.close();
  t.same(readdirSync(root), []);
});

t.test('removes the scratch directory of a dead process after at most an hour', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'scratch-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const clock = manualClock();
  const scratch = await openScratch(root, {
    ...systemClock,
    every: (ms, callback) => clock.every(ms, callback),
  });
  const dead = path.join(root, 'process-7');
  mkdirSync(path.join(dead, 'files'), { recursive: true });
  await clock.advance(3_600_000);
  while (existsSync(dead)) await systemClock.sleep(5);
  await scratch.close();
});
