import { execFileSync } from 'node:child_process';
import fs, {
  chmodSync,
  lstatSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import t, { type Test } from 'tap';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';

const aside = key('.publisher.tmp/1/kept');
const longAgo = new Date('2001-02-03T04:05:06Z');

t.test('restores the same file: inode, time and mode', async (t) => {
  const root = t.testdir({ d: { page: 'old' } });
  const file = path.join(root, 'd/page');
  chmodSync(file, 0o640);
  utimesSync(file, longAgo, longAgo);
  const before = lstatSync(file);
  const storage = await localStorage(root);
  for (const change of ['replaced', 'removed', 'untouched']) {
    const kept = await storage.backUp(key('d/page'), aside);
    t.match(kept, { method: 'link' });
    if (kept === null) return;
    if (change === 'replaced') {
      await storage.write(key('.publisher.tmp/1/new'), bytesBody('new'), { mode: 'scratch' });
      await storage.rename([{ from: key('.publisher.tmp/1/new'), to: key('d/page') }]);
      t.not(lstatSync(file).ino, before.ino);
    } else if (change === 'removed') await storage.remove(key('d/page'));
    await storage.restore(kept);
    await storage.sync();
    await storage.removeTree(key('.publisher.tmp/1'));
    const { ino, mtimeMs, mode, nlink } = lstatSync(file);
    const { ino: oldIno, mtimeMs: oldTime, mode: oldMode } = before;
    t.same({ ino, mtimeMs, mode, nlink }, { ino: oldIno, mtimeMs: oldTime, mode: oldMode, nlink: 1 }, change);
    t.equal(readFileSync(file, 'utf8'), 'old');
  }
});

t.test('keeps links and pipes as such', async (t) => {
  const root = t.testdir();
  symlinkSync('nowhere', path.join(root, 'link'));
  execFileSync('mkfifo', [path.join(root, 'pipe')]);
  const storage = await localStorage(root);
  for (const name of ['link', 'pipe']) {
    const kept = await storage.backUp(key(name), aside);
    await storage.remove(key(name));
    if (kept !== null) await storage.restore(kept);
  }
  t.equal(readlinkSync(path.join(root, 'link')), 'nowhere');
  t.ok(lstatSync(path.join(root, 'pipe')).isFIFO());
});

/** Makes every hard link fail, as on a file system without them. */
function refuseHardLinks(t: Test): void {
  const { linkSync } = fs;
  fs.linkSync = () => {
    throw Object.assign(new Error('EPERM: operation not permitted'), { code: 'EPERM' });
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    fs.linkSync = linkSync;
    syncBuiltinESMExports();
  });
}

t.test('without hard links a file is copied, with its time and mode', async (t) => {
  const root = t.testdir({ d: { page: 'old' } });
  const file = path.join(root, 'd/page');
  chmodSync(file, 0o640);
  utimesSync(file, longAgo, longAgo);
  refuseHardLinks(t);
  const storage = await localStorage(root);
  const kept = await storage.backUp(key('d/page'), aside);
  t.match(kept, { method: 'copy' });
  writeFileSync(file, 'new');
  if (kept !== null) await storage.restore(kept);
  t.equal(readFileSync(file, 'utf8'), 'old');
  t.match(lstatSync(file), { mtime: longAgo, mode: 0o100640 });
});

t.test('without hard links a symbolic link is copied, and a pipe is moved', async (t) => {
  const root = t.testdir();
  symlinkSync('nowhere', path.join(root, 'link'));
  execFileSync('mkfifo', [path.join(root, 'pipe')]);
  refuseHardLinks(t);
  const storage = await localStorage(root);
  t.equal(await storage.backUp(key('no'), aside), null);
  t.match(await storage.backUp(key('pipe'), aside), { method: 'move' });
  const kept = await storage.backUp(key('link'), key('.publisher.tmp/kept-link'));
  t.match(kept, { method: 'copy' });
  await storage.remove(key('link'));
  if (kept !== null) await storage.restore(kept);
  t.equal(readlinkSync(path.join(root, 'link')), 'nowhere');
});
