import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { createLockedDirectory, lockDirectory } from '../../../src/core/lib/directory-lock.ts';

// The address of a socket must be short.
function shortDirectory(t: { teardown(run: () => void): void }): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'locked-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

t.test('detects another process between its check and its lock', async (t) => {
  const directory = shortDirectory(t);
  const lock = await lockDirectory(directory);
  t.ok(await lock?.isAlone());
  const other = createServer((socket) => socket.destroy());
  other.listen(path.join(directory, 'daemon-0123abcd.sock'));
  await once(other, 'listening');
  t.notOk(await lock?.isAlone());
  other.close();
  await once(other, 'close');
  writeFileSync(path.join(directory, 'daemon-4567abcd.sock'), 'of the dead');
  t.ok(await lock?.isAlone());
  await lock?.release();
});

t.test('creates the directory, and removes it on release', async (t) => {
  const parent = shortDirectory(t);
  const directory = path.join(parent, 'new', 'lock');
  const release = await createLockedDirectory(directory, systemClock);
  t.equal(await lockDirectory(directory), null);
  t.equal(await createLockedDirectory(directory, systemClock), null);
  await release?.();
  t.same(readdirSync(path.join(parent, 'new')), []);
});
