import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { storageContract } from '../../../contract/storage.ts';
import { startPlainSftpServer } from '../../../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, type SftpServer, startSshd } from '../../../services/sshd.ts';

const servers = {
  OpenSSH: await startSshd(t),
  'OpenSSH without hard links': await startSshd(t, { subsystem: 'internal-sftp -P hardlink' }),
  'a server without extensions': await startPlainSftpServer(t),
  'a server that answers with codes of version 6': await startPlainSftpServer(t, { laterCodes: true }),
};
const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
/** All of these servers send a hundred names at once. */
const page = 100;
let worlds = 0;

function newPlace(server: SftpServer): string {
  worlds += 1;
  return path.join(server.root, `world ${worlds}`);
}

const variants: Record<string, { variantOf: string }> = {
  'OpenSSH without hard links': { variantOf: 'OpenSSH' },
  'a server that answers with codes of version 6': { variantOf: 'a server without extensions' },
};
for (const [name, server] of Object.entries(servers)) {
  t.test(name, (t) =>
    storageContract(
      t,
      async () => {
        const location = sftpLocationOf(server, newPlace(server));
        return { open: async () => sftpStorage(location, options), page };
      },
      variants[name],
    ),
  );
}

t.test('OpenSSH, one request at a time, through a view of a subdirectory', (t) =>
  storageContract(
    t,
    async () => {
      const location = { ...sftpLocationOf(servers.OpenSSH, newPlace(servers.OpenSSH)), maxRequests: 1 };
      const open = async (): Promise<Storage> =>
        subdirectory(await sftpStorage(location, options), key('deep/inside'));
      return { open, page };
    },
    { variantOf: 'OpenSSH' },
  ),
);

t.test('facts: detects the features of the server', async (t) => {
  for (const [server, rename] of [
    [servers.OpenSSH, 'atomic'],
    [servers['a server without extensions'], 'replace_in_steps'],
  ] as const) {
    const storage = await sftpStorage(sftpLocationOf(server, newPlace(server)), options);
    t.equal(storage.renameKind, rename);
    t.equal(await storage.facts.conditionalWrites(), 'create');
    await storage.close();
  }
});

t.test('a file is kept as a hard link if the server supports it, and moved otherwise', async (t) => {
  for (const [name, by] of [
    ['OpenSSH', 'link'],
    ['OpenSSH without hard links', 'move'],
    ['a server without extensions', 'move'],
  ] as const) {
    const place = newPlace(servers[name]);
    const storage = await sftpStorage(sftpLocationOf(servers[name], place), options);
    t.teardown(() => storage.close());
    await storage.write(key('d/page'), bytesBody('old'), { mode: 'replace' });
    const { ino, mtimeMs } = lstatSync(path.join(place, 'd/page'));
    const kept = await storage.backUp(key('d/page'), key('.publisher.tmp/1/kept'));
    t.match(kept, { method: by }, name);
    if (kept === null) return;
    const [from, to] = [key('.publisher.tmp/1/new'), key('d/page')];
    await storage.write(from, bytesBody('new'), { mode: 'scratch' });
    await storage.rename([{ from, to, ...(by === 'move' ? { aside: kept.aside } : {}) }]);
    t.equal(readFileSync(path.join(place, 'd/page'), 'utf8'), 'new');
    await storage.restore(kept);
    await storage.removeTree(key('.publisher.tmp/1'));
    t.equal(readFileSync(path.join(place, 'd/page'), 'utf8'), 'old');
    t.match(lstatSync(path.join(place, 'd/page')), { ino, mtimeMs, nlink: 1 }, `${name}: the same file`);
  }
});

t.test('does not follow a symbolic link in a path', async (t) => {
  const server = servers.OpenSSH;
  const place = newPlace(server);
  mkdirSync(path.join(place, 'real'), { recursive: true });
  symlinkSync('real', path.join(place, 'link'));
  const storage = await sftpStorage(sftpLocationOf(server, place), options);
  t.teardown(() => storage.close());
  await t.rejects(storage.write(key('link/x'), bytesBody('x'), { mode: 'replace' }), {
    code: 'storage_permanent',
    message: /"link" is not a directory/,
  });
  t.match(await storage.stat(key('link')), { type: 'link', size: 0 });
  writeFileSync(path.join(place, 'real/precious'), 'precious');
  const refused = { code: 'storage_permanent', message: /"link" is not a directory/, hint: /symbolic link/ };
  await t.rejects(storage.remove(key('link/precious')), refused);
  await t.rejects(storage.removeTree(key('link/precious')), refused);
  const change = { writes: [], removes: [key('link/precious')], from: '' as const, bytes: null };
  t.match(await storage.obstacleTo(change), refused);
  await storage.remove(key('link/not-there'));
  t.equal(readFileSync(path.join(place, 'real/precious'), 'utf8'), 'precious');
});

t.test('a file is duplicated as a hard link, else as a copy on the server, else not at all', async (t) => {
  for (const [name, server, by] of [
    ['OpenSSH', servers.OpenSSH, 'link'],
    ['OpenSSH without hard links', servers['OpenSSH without hard links'], 'copy'],
    [
      'OpenSSH without either',
      await startSshd(t, { subsystem: 'internal-sftp -P hardlink,copy-data' }),
      null,
    ],
    ['a server without extensions', servers['a server without extensions'], null],
  ] as const) {
    const place = newPlace(server);
    const storage = await sftpStorage(sftpLocationOf(server, place), options);
    t.teardown(() => storage.close());
    await storage.write(key('d/page'), bytesBody('old'), { mode: 'replace' });
    const to = key('.publisher.tmp/1/output-0');
    t.equal(await storage.duplicate(key('d/page'), to), by, name);
    t.equal(existsSync(path.join(place, to)), by !== null);
    if (by === null) continue;
    t.equal(readFileSync(path.join(place, to), 'utf8'), 'old');
    const isShared = lstatSync(path.join(place, to)).ino === lstatSync(path.join(place, 'd/page')).ino;
    t.equal(isShared, by === 'link');
    chmodSync(path.join(place, 'd/page'), 0o664);
    t.equal(
      await storage.duplicate(key('d/page'), to),
      'copy',
      'a file that other users can change is not shared',
    );
    const large = Buffer.alloc((33 << 20) + 5, 'large');
    writeFileSync(path.join(place, 'large'), large, { mode: 0o666 });
    chmodSync(path.join(place, 'large'), 0o666);
    t.equal(await storage.duplicate(key('large'), to), 'copy', 'in more than one request');
    t.ok(readFileSync(path.join(place, to)).equals(large));
  }
});
