import fs, {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import t from 'tap';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';

const scratch = key('.publisher.tmp/1/output-0');

t.test('a duplicate is a hard link to the same file', async (t) => {
  const root = t.testdir({ d: { page: 'x' } });
  const storage = await localStorage(root);
  t.equal(await storage.duplicate(key('d/page'), scratch), 'link');
  t.equal(lstatSync(path.join(root, scratch)).ino, lstatSync(path.join(root, 'd/page')).ino);
});

t.test('does not share a file that other users can change', async (t) => {
  const root = t.testdir({ page: 'x' });
  const storage = await localStorage(root);
  for (const mode of [0o664, 0o646, 0o666]) {
    chmodSync(path.join(root, 'page'), mode);
    t.equal(await storage.duplicate(key('page'), scratch), null, mode.toString(8));
  }
  t.equal(await storage.stat(scratch), undefined);
  chmodSync(path.join(root, 'page'), 0o644);
  t.equal(await storage.duplicate(key('page'), scratch), 'link');
});

t.test('without hard links, creates no file; any other failure is reported', async (t) => {
  const root = t.testdir({ page: 'x' });
  const storage = await localStorage(root);
  const { linkSync } = fs;
  t.teardown(() => {
    fs.linkSync = linkSync;
    syncBuiltinESMExports();
  });
  const failWith = (code: string): void => {
    fs.linkSync = () => {
      throw Object.assign(new Error(`${code}: for the test`), { code });
    };
    syncBuiltinESMExports();
  };
  for (const code of ['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP']) {
    failWith(code);
    writeFileSync(path.join(root, 'left'), 'left by a call whose answer was lost');
    t.equal(await storage.duplicate(key('page'), key('left')), null, code);
    t.notOk(existsSync(path.join(root, 'left')));
  }
  failWith('EIO');
  await t.rejects(storage.duplicate(key('page'), key('left')), { cause: { code: 'EIO' } });
});

t.test('does not follow a link when it is replaced or duplicated', async (t) => {
  const root = t.testdir({ target: { precious: 'x' } });
  symlinkSync('target', path.join(root, 'current'));
  const storage = await localStorage(root);
  t.equal(await storage.duplicate(key('current'), scratch), null);
  await storage.replaceLink(key('current'), key('elsewhere'));
  t.equal(readlinkSync(path.join(root, 'current')), 'elsewhere');
  t.ok(existsSync(path.join(root, 'target/precious')));
  linkSync(path.join(root, 'target/precious'), path.join(root, 'plain'));
  t.equal(await storage.readLink(key('plain')), null, 'a hard link is a file');
});

t.test('a storage opened as read-only changes nothing', async (t) => {
  const root = t.testdir({ page: 'x' });
  const storage = await localStorage(root, { readOnly: true });
  await t.rejects(storage.duplicate(key('page'), scratch), { code: 'storage_denied' });
  await t.rejects(storage.replaceLink(key('current'), key('page')), { code: 'storage_denied' });
  t.notOk(existsSync(path.join(root, 'current')));
});
