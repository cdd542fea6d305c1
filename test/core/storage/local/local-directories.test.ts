import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { bytesBody, readAll, storedBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { maxOpenDirectories } from '../../../../src/core/storage/local/local-directories.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import type { Entry, Storage } from '../../../../src/core/storage/storage.ts';

async function entriesOf(storage: Storage): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of storage.list('', { recursive: true })) entries.push(entry);
  return entries;
}

t.test('does not read a listed file that was replaced', async (t) => {
  const root = t.testdir({ from: { file: 'listed' }, to: {}, private: 'secret', other: 'public' });
  const from = await localStorage(path.join(root, 'from'));
  const to = await localStorage(path.join(root, 'to'));
  const [entry] = await entriesOf(from);
  if (entry === undefined) throw new Error('nothing was listed');
  t.equal((await readAll(from, entry.key, 16, entry.identity)).toString(), 'listed');
  const replaced = path.join(root, 'from/file');
  const replacements = [
    () => renameSync(path.join(root, 'other'), replaced),
    () => {
      symlinkSync('../private', path.join(root, 'link'));
      renameSync(path.join(root, 'link'), replaced);
    },
  ];
  for (const replace of replacements) {
    replace();
    await t.rejects(readAll(from, entry.key, 16, entry.identity), { code: 'body_mismatch' });
    const write = to.write(key('copy'), storedBody(from, entry), { mode: 'replace' });
    await t.rejects(write, { code: 'body_mismatch' });
  }
  t.same(readdirSync(path.join(root, 'to')), []);
  await t.rejects(readAll(from, entry.key, 16), { code: 'storage_permanent', message: 'is not a file' });
});

t.test('writes nothing through a link that another user created in staging', async (t) => {
  const root = t.testdir({ precious: 'precious', root: { staging: {} } });
  const staging = path.join(root, 'root/staging');
  symlinkSync('../../precious', path.join(staging, 'link'));
  linkSync(path.join(root, 'precious'), path.join(staging, 'hard'));
  const storage = await localStorage(path.join(root, 'root'));
  for (const name of ['link', 'hard']) {
    await storage.write(key(`staging/${name}`), bytesBody('new'), { mode: 'scratch' });
    t.equal(readFileSync(path.join(staging, name), 'utf8'), 'new');
  }
  t.equal(readFileSync(path.join(root, 'precious'), 'utf8'), 'precious');
});

t.test('finds a directory again that another process removed and created again', async (t) => {
  const root = t.testdir({ d: { old: 'old' } });
  const storage = await localStorage(root);
  t.match(await storage.stat(key('d/old')), { type: 'file' });
  renameSync(path.join(root, 'd'), path.join(root, 'gone'));
  mkdirSync(path.join(root, 'd'));
  writeFileSync(path.join(root, 'd/new'), 'new');
  t.equal(await storage.stat(key('d/old')), undefined);
  t.equal((await readAll(storage, key('d/new'), 16)).toString(), 'new');
  await storage.write(key('d/more'), bytesBody('more'), { mode: 'scratch' });
  t.same(readdirSync(path.join(root, 'd')).sort(), ['more', 'new']);
});

const onLinux = { skip: process.platform === 'linux' ? false : 'descriptors are counted in /proc' };

t.test('500 directories use few descriptors, and close releases them all', onLinux, async (t) => {
  const root = t.testdir();
  const open = (): number =>
    readdirSync('/proc/self/fd').filter((name) => {
      try {
        return readlinkSync(`/proc/self/fd/${name}`).startsWith(root);
      } catch {
        return false; // The descriptor of this listing.
      }
    }).length;
  const storage = await localStorage(root);
  for (let index = 0; index < 500; index += 1)
    await storage.write(key(`d${index}/e/f`), bytesBody(`${index}`), { mode: 'scratch' });
  const entries = await entriesOf(storage);
  t.equal(entries.length, 500);
  for (const entry of entries) await readAll(storage, entry.key, 16, entry.identity);
  t.ok(open() <= maxOpenDirectories + 3, `${open()} are open`);
  await storage.removeTree(key('d7'));
  await storage.close();
  t.equal(open(), 0);
});

for (const umask of [0o000, 0o077])
  t.test(`files and directories get their modes with umask ${umask.toString(8)}`, async (t) => {
    const root = path.join(t.testdir(), 'above', 'made');
    const before = process.umask(umask);
    t.teardown(() => process.umask(before));
    const modeOf = (name: string): string => (statSync(path.join(root, name)).mode & 0o7777).toString(8);
    const storage = await localStorage(root);
    await storage.write(key('a/b/small'), bytesBody('c'), { mode: 'replace' });
    await storage.write(key('a/large'), bytesBody('x'.repeat(100_000)), { mode: 'scratch' });
    await storage.write(key('lock'), bytesBody(''), { mode: 'create' });
    t.same(['..', '', 'a', 'a/b'].map(modeOf), ['755', '755', '755', '755']);
    t.same(['a/b/small', 'a/large', 'lock'].map(modeOf), ['644', '644', '644']);
    await storage.close();
    const other = await localStorage(root, { modes: { file: 0o640, directory: 0o750 } });
    await other.write(key('other/file'), bytesBody('e'), { mode: 'replace' });
    t.same(['other', 'other/file'].map(modeOf), ['750', '640']);
    await other.close();
  });

t.test('a new directory keeps the group of its setgid parent', async (t) => {
  const root = t.testdir();
  chmodSync(root, 0o2755);
  const storage = await localStorage(root);
  await storage.write(key('a/b'), bytesBody('b'), { mode: 'replace' });
  t.equal(statSync(path.join(root, 'a')).mode & 0o7777, 0o2755);
  await storage.close();
});
