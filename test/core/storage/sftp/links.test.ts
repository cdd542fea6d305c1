import { lstatSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import {
  expectsSwappedPaths,
  type LinkRequests,
  SftpLinks,
} from '../../../../src/core/storage/sftp/links.ts';
import type { SftpDirectories } from '../../../../src/core/storage/sftp/sftp-directories.ts';
import type { SftpNames } from '../../../../src/core/storage/sftp/sftp-names.ts';
import type { SftpRoot } from '../../../../src/core/storage/sftp/sftp-root.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import { startPlainSftpServer } from '../../../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';

/** How a server uses the two paths. */
function requests(make: (target: string, link: string) => void): LinkRequests {
  return {
    symlink: async (target, link) => make(target, link),
    isLink: async (file) => lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true,
    unlink: async (file) => rmSync(file, { force: true }),
  };
}

t.test('detects which of the two paths a server uses for the link', async (t) => {
  const place = t.testdir();
  const names = [path.join(place, 'one'), path.join(place, 'other')] as const;
  t.equal(await expectsSwappedPaths(requests(symlinkSync), names), false);
  const swapped = requests((target, link) => symlinkSync(link, target));
  t.equal(await expectsSwappedPaths(swapped, names), true);
  await t.rejects(
    expectsSwappedPaths(
      requests(() => undefined),
      names,
    ),
    {
      code: 'storage_permanent',
      message: /created no link/,
    },
  );
  const refusing = requests(() => {
    throw new Error('no such request');
  });
  await t.rejects(expectsSwappedPaths(refusing, names), { message: 'no such request' });
  t.same(readdirSync(place), [], 'no files are left');
});

t.test('OpenSSH: the link has the right location and a relative target', async (t) => {
  const server = await startSshd(t);
  const storage = await sftpStorage(sftpLocationOf(server, server.root), {
    ...{ clock: systemClock, log: silentLog, secrets: noSecrets },
  });
  t.teardown(() => storage.close());
  await storage.replaceLink!(key('site/current'), key('releases/1'));
  await server.restart();
  // The connection is lost, possibly detected by the first call only.
  await storage.readLink(key('site/current')).catch(() => undefined);
  await storage.replaceLink!(key('site/current'), key('releases/2'));
  t.equal(readlinkSync(path.join(server.root, 'site/current')), 'releases/2');
  t.same(readdirSync(path.join(server.root, 'site')), ['current']);
});

t.test('a server without atomic replacement makes no links either', async (t) => {
  const server = await startPlainSftpServer(t);
  const storage = await sftpStorage(sftpLocationOf(server, server.root), {
    ...{ clock: systemClock, log: silentLog, secrets: noSecrets },
  });
  t.teardown(() => storage.close());
  t.equal(storage.replaceLink, undefined);
  t.equal(await storage.readLink(key('current')), null);
});

t.test('after a reconnect, a server may copy files although the one before could not', async (t) => {
  let reconnect: () => void = () => undefined;
  let copies = 0;
  // Other users may write to the file, so it gets no hard link.
  const file = { mode: 0o100666, size: 1 };
  const root = {
    onReconnect: (forget: () => void) => void (reconnect = forget),
    lstat: async () => file,
    at: (name: string) => name,
    modes: { file: 0o644 },
    ask: async () => undefined,
    connected: async () => {
      copies += 1;
      throw Object.assign(new Error('Operation unsupported'), { code: 8 });
    },
  } as unknown as SftpRoot;
  const directories = {
    withParent: async (_key: string, work: () => Promise<void>) => work(),
  } as unknown as SftpDirectories;
  const links = new SftpLinks(root, directories, {} as unknown as SftpNames);
  t.equal(await links.duplicate(key('a'), key('b')), null);
  t.equal(await links.duplicate(key('a'), key('c')), null);
  t.equal(copies, 1, 'this server is not asked again');
  reconnect();
  t.equal(await links.duplicate(key('a'), key('d')), null);
  t.equal(copies, 2);
});
