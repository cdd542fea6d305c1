import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import type { Entry, Storage } from '../../../../src/core/storage/storage.ts';
import { followLinks } from '../../../../src/core/storage/wrappers/follow-links.ts';
import { rejectsWith } from '../../../contract/storage.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';

const readOnly = { readOnly: true, mustExist: true };

interface World {
  /** The directory with the root and other directories. */
  top: string;
  open: (linksTo?: readonly string[], maxLinks?: number) => Promise<Storage>;
}

/** A root with these links, by name; next to it are `shared/a.txt` and `secret/key.txt`. */
function layOut(t: Test, links: Readonly<Record<string, string>>): World {
  const top = t.testdir({
    root: { 'plain.txt': 'plain', dir: { 'x.txt': 'x', deep: { 'y.txt': 'y' } } },
    shared: { 'a.txt': 'shared' },
    secret: { 'key.txt': 'secret' },
  });
  for (const [name, target] of Object.entries(links)) {
    mkdirSync(path.dirname(path.join(top, 'root', name)), { recursive: true });
    symlinkSync(target, path.join(top, 'root', name));
  }
  const root = path.join(top, 'root');
  return {
    top,
    async open(linksTo = [], maxLinks = 100) {
      const open = (directory: string): Promise<Storage> => localStorage(directory, readOnly);
      const storage = followLinks(await localStorage(root, readOnly), { root, linksTo, open, maxLinks });
      t.teardown(() => storage.close());
      return storage;
    },
  };
}

async function listed(storage: Storage): Promise<Map<string, Entry>> {
  const found = new Map<string, Entry>();
  for await (const entry of storage.list('', { recursive: true, stamps: true })) found.set(entry.key, entry);
  return found;
}

async function read(storage: Storage, name: string, entry?: Entry): Promise<string> {
  return (await readAll(storage, key(name), 1 << 20, entry?.identity)).toString();
}

/** The reasons why links are not followed, by name. */
function unfollowed(entries: ReadonlyMap<string, Entry>): Record<string, string | undefined> {
  const links = [...entries.values()].filter(({ type }) => type === 'link');
  return Object.fromEntries(links.map((entry) => [entry.key, entry.unfollowed]));
}

t.test('a link appears as its target file or directory', async (t) => {
  const { top, open } = layOut(t, {
    'file.txt': 'plain.txt',
    'again.txt': './dir/../file.txt',
    tree: 'dir',
    'deep/inner': '../tree/deep',
    'whole.txt': '{top}',
  });
  rmSync(path.join(top, 'root/whole.txt'));
  symlinkSync(path.join(top, 'root/plain.txt'), path.join(top, 'root/whole.txt'));
  const storage = await open();
  const entries = await listed(storage);
  t.same([...entries.keys()].sort(), [
    ...['again.txt', 'deep/inner/y.txt', 'dir/deep/y.txt', 'dir/x.txt', 'file.txt', 'plain.txt'],
    ...['tree/deep/y.txt', 'tree/x.txt', 'whole.txt'],
  ]);
  for (const [name, text] of [
    ['file.txt', 'plain'],
    ['again.txt', 'plain'],
    ['whole.txt', 'plain'],
    ['tree/x.txt', 'x'],
    ['deep/inner/y.txt', 'y'],
  ] as const) {
    t.equal(await read(storage, name), text, name);
    t.equal(await read(storage, name, entries.get(name)), text, `${name}, as listed`);
    t.match(await storage.stat(key(name)), { type: 'file', size: text.length });
  }
  t.equal(entries.get('file.txt')?.stamp?.id, entries.get('plain.txt')?.stamp?.id);
  t.match(await (await open()).stat(key('file.txt')), { type: 'file', size: 5 }, 'before any listing');
});

t.test('follows a link out of the root only to an allowed directory', async (t) => {
  const { top, open } = layOut(t, {
    shared: '../shared',
    'a.txt': '../shared/a.txt',
    'key.txt': '../secret/key.txt',
  });
  const refused = unfollowed(await listed(await open()));
  t.same(Object.keys(refused).sort(), ['a.txt', 'key.txt', 'shared']);
  t.match(
    refused['shared'],
    /^is a symbolic link to "..\/shared", which leads out of the source; .*links_to/,
  );
  const storage = await open([path.join(top, 'shared')]);
  const entries = await listed(storage);
  t.same(Object.keys(unfollowed(entries)), ['key.txt']);
  t.equal(await read(storage, 'shared/a.txt'), 'shared');
  t.equal(await read(storage, 'a.txt'), 'shared');
  await t.rejects(read(storage, 'key.txt'), { code: 'storage_permanent' });
  t.same(unfollowed(await listed(await open(['/']))), {});
});

t.test('a cyclic or dangling link stays a link with a reason', async (t) => {
  const { open } = layOut(t, {
    'dir/up': '..',
    'dir/self': '.',
    loop: 'pool',
    pool: 'loop',
    gone: 'nowhere',
    'below-file': 'plain.txt/x',
    'a/to-b': '../b',
    'b/to-a': '../a',
    'far/up': '../..',
  });
  const reasons = unfollowed(await listed(await open()));
  for (const name of ['dir/up', 'dir/self', 'loop', 'pool', 'a/to-b/to-a', 'b/to-a/to-b'])
    t.match(reasons[name], /points to a directory that contains it/, name);
  for (const name of ['gone', 'below-file']) t.match(reasons[name], /leads to nothing/, name);
  t.match(reasons['far/up'], /leads out of the source/);
  const { open: openTop } = layOut(t, { 'far/up': '../..' });
  const outside = unfollowed(await listed(await openTop(['/'])));
  t.ok(
    Object.values(outside).every((reason) => reason?.includes('points to a directory that contains it')),
    'a directory above the root, if it is allowed',
  );
});

t.test('does not read a link that was replaced after the listing', async (t) => {
  const { top, open } = layOut(t, { 'file.txt': 'plain.txt', tree: 'dir' });
  const storage = await open();
  const entries = await listed(storage);
  const at = (name: string): string => path.join(top, 'root', name);
  rmSync(at('file.txt'));
  symlinkSync('../secret/key.txt', at('file.txt'));
  t.equal(await read(storage, 'file.txt'), 'plain', 'the listed file, and not the new target');
  rmSync(at('plain.txt'));
  symlinkSync('../secret/key.txt', at('plain.txt'));
  await rejectsWith(t, read(storage, 'file.txt', entries.get('file.txt')), 'body_mismatch');
  renameSync(at('dir'), at('moved'));
  symlinkSync('../secret', at('dir'));
  writeFileSync(path.join(top, 'secret/x.txt'), 'secret');
  await t.rejects(read(await open(), 'tree/x.txt'));
  t.not(await read(storage, 'tree/x.txt').catch(String), 'secret', 'the open directory, if any');
});

t.test('rejects links that multiply', async (t) => {
  const { top, open } = layOut(t, {});
  for (let level = 0; level < 20; level += 1) {
    const directory = path.join(top, 'root', `d${level}`);
    mkdirSync(directory);
    for (const name of ['l', 'r']) symlinkSync(`../d${level + 1}`, path.join(directory, name));
  }
  mkdirSync(path.join(top, 'root/d20'));
  const refused = await listed(await open()).catch((error: unknown) => error);
  t.match(refused, {
    code: 'storage_permanent',
    message: /more than 100 symbolic links; the last one is "d/,
  });
});

t.test('follows links of an SFTP server below the root', async (t) => {
  const server = await startSshd(t);
  const root = path.join(server.root, 'site');
  mkdirSync(path.join(root, 'dir/deep'), { recursive: true });
  writeFileSync(path.join(root, 'dir/deep/y.txt'), 'y');
  writeFileSync(path.join(server.root, 'private.txt'), 'private');
  for (const [name, target] of [
    ['tree', 'dir'],
    ['dir/y.txt', '../tree/deep/y.txt'],
    ['out.txt', '../private.txt'],
    ['absolute.txt', path.join(server.root, 'private.txt')],
    ['gone', 'nowhere'],
    ['dir/deep/up', '../..'],
    ['loop', 'loop'],
  ] as const)
    symlinkSync(target, path.join(root, name));
  const location = sftpLocationOf(server, root);
  const driver = await sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
  const none = { root: null, linksTo: [], open: async (): Promise<never> => t.fail('opened') as never };
  const storage = followLinks(driver, none);
  t.teardown(() => storage.close());
  const entries = await listed(storage);
  t.same(Object.keys(unfollowed(entries)).sort(), [
    ...['absolute.txt', 'dir/deep/up', 'gone', 'loop', 'out.txt', 'tree/deep/up'],
  ]);
  t.equal(await read(storage, 'tree/deep/y.txt'), 'y');
  t.equal(await read(storage, 'tree/y.txt'), 'y');
  t.equal(await read(storage, 'dir/y.txt', entries.get('dir/y.txt')), 'y');
});

t.test('opens a directory of links_to again after a failure, and closes everything else', async (t) => {
  const { top } = layOut(t, { 'one.txt': '../shared/a.txt' });
  const root = path.join(top, 'root');
  const closed: string[] = [];
  const opened = async (directory: string): Promise<Storage> => {
    const storage = await localStorage(directory, readOnly);
    const close = storage.close.bind(storage);
    storage.close = async () => {
      closed.push(path.basename(directory));
      await close();
    };
    return storage;
  };
  let failures = 1;
  const open = async (directory: string): Promise<Storage> => {
    failures -= 1;
    if (failures >= 0) throw new Error('too many open files');
    return opened(directory);
  };
  const linksTo = [path.join(top, 'shared')];
  const storage = followLinks(await opened(root), { root, linksTo, open });
  await t.rejects(listed(storage), { message: 'too many open files' });
  t.equal((await listed(storage)).get('one.txt')?.type, 'file');
  await storage.close();
  t.same(closed.sort(), ['root', 'shared']);

  failures = 1;
  const broken = followLinks(await opened(root), { root, linksTo, open });
  await t.rejects(listed(broken), { message: 'too many open files' });
  await broken.close();
  t.same(closed.sort(), ['root', 'root', 'shared']);
});
