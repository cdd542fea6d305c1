import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { claimDirectory, claimLeft } from '../../../src/workers/staging/claimed-directory.ts';
import { lockDirectory } from '../../../src/workers/staging/directory-lock.ts';

/** Which directory is whose, where several processes of a machine stage in one place. */

t.test('any number that come at the same moment get one each', async (t) => {
  const request = { parent: t.testdir(), name: 'content', clock: systemClock };
  for (let round = 0; round < 10; round += 1) {
    const claimed = await Promise.all(Array.from({ length: 6 }, () => claimDirectory(request)));
    t.equal(new Set(claimed.map(({ directory }) => directory)).size, claimed.length);
    for (const one of claimed) await one.release();
    t.same(readdirSync(request.parent), [], 'empty directories are removed');
  }
});

t.test('claims a free directory, whatever its number', async (t) => {
  const request = { parent: t.testdir(), name: 'content', clock: systemClock };
  t.same(await claimLeft(request), []);
  t.same(await claimLeft({ ...request, parent: path.join(request.parent, 'none') }), []);
  const first = await claimDirectory(request);
  for (const name of ['content-3', 'content-x', 'content-2-old']) mkdirSync(path.join(request.parent, name));
  writeFileSync(path.join(request.parent, 'content-4'), 'no directory');
  const left = await claimLeft(request);
  t.same(
    left.map(({ directory }) => path.basename(directory)),
    ['content-3'],
  );
  t.same(await claimLeft(request), [], 'it is taken now');
  for (const one of [first, ...left]) await one.release();
  t.same(readdirSync(request.parent).sort(), ['content-2-old', 'content-4', 'content-x']);
});

t.test('detects a claim between its check and its lock', async (t) => {
  // The address of a socket has room for a short path only.
  const directory = mkdtempSync(path.join(tmpdir(), 'claimed-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const lock = await lockDirectory(directory);
  t.ok(await lock.isAlone());
  const other = createServer((socket) => socket.destroy());
  other.listen(path.join(directory, 'daemon-0123abcd.sock'));
  await once(other, 'listening');
  t.notOk(await lock.isAlone());
  other.close();
  await once(other, 'close');
  writeFileSync(path.join(directory, 'daemon-4567abcd.sock'), 'of the dead');
  t.ok(await lock.isAlone());
  await lock.release();
});
