import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import ssh2, { type Attributes, type SFTPWrapper } from 'ssh2';
import t, { type Test } from 'tap';
import { discoverBundles, loadBundle } from '../../../../src/core/bundle/discover.ts';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import { listedKey as keyOf } from '../../../../src/core/storage/key.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import {
  bundlePath,
  contextWith,
  destinationOf,
  owner,
  publishTo,
  snapshot,
  testClock,
} from '../../../faults/world.ts';
import { startPlainSftpServer } from '../../../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf } from '../../../services/sshd.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/*
 * An SFTP server that lies, as source and as destination. Each operation ends, either with the listed bytes
 * or with an error of one printable line. Names in listings and endless listings:
 * `test/core/storage/untrusted.test.ts`.
 */

const { OPEN_MODE: mode, STATUS_CODE: status } = ssh2.utils.sftp;
const file: Attributes = { mode: 0o100644, uid: 0, gid: 0, size: 4, atime: 0, mtime: 0 };
const content = 'page';
const answerWithinMs = 1_000;

/** Replaces the handlers of a session. */
type Lie = (sftp: SFTPWrapper) => void;

/** `as` is called instead of the handler. With its result `honest`, the handler is called, too. */
function instead(sftp: SFTPWrapper, event: string, as: (id: number, ...rest: never[]) => unknown): void {
  const honest = sftp.listeners(event) as ((...args: unknown[]) => void)[];
  sftp.removeAllListeners(event);
  sftp.on(event as never, (id: number, ...rest: never[]) => {
    if (as(id, ...rest) === 'honest') for (const handler of honest) handler(id, ...rest);
  });
}

const escape = '\u001b]0;owned\u0007';
const lies: Record<string, Lie> = {
  'a listing with control characters in long names': (sftp) => {
    const names = sftp.name.bind(sftp);
    sftp.name = (id, list) =>
      names(
        id,
        [list].flat().map((one) => ({ ...one, longname: `${escape}${'x'.repeat(10_000)}` })),
      );
  },
  'every file is a directory to LSTAT': (sftp) =>
    instead(sftp, 'LSTAT', (id) => sftp.attrs(id, { ...file, mode: 0o040755 })),
  'every name is a link to LSTAT': (sftp) =>
    instead(sftp, 'LSTAT', (id) => sftp.attrs(id, { ...file, mode: 0o120777 })),
  'an open file has an enormous size and no end': (sftp) => {
    instead(sftp, 'FSTAT', (id) => sftp.attrs(id, { ...file, size: 2 ** 50 }));
    instead(sftp, 'READ', (id, _handle, _offset, length: number) => sftp.data(id, Buffer.alloc(length, 'x')));
  },
  'an open file is shorter than listed': (sftp) => {
    instead(sftp, 'FSTAT', (id) => sftp.attrs(id, { ...file, size: 1 }));
    instead(sftp, 'READ', (id, _handle, offset: number) =>
      offset === 0 ? sftp.data(id, Buffer.from('{')) : sftp.status(id, status.EOF),
    );
  },
  'other bytes of the same length': (sftp) =>
    instead(sftp, 'READ', (id, _handle, offset: number, length: number) =>
      offset < 4 ? sftp.data(id, Buffer.alloc(Math.min(4, length), 'z')) : sftp.status(id, status.EOF),
    ),
  'more bytes than requested': (sftp) =>
    instead(sftp, 'READ', (id, _handle, _offset, length: number) =>
      sftp.data(id, Buffer.alloc(Math.min(length + 1000, 200_000), 'x')),
    ),
  'no bytes and no end': (sftp) => instead(sftp, 'READ', (id) => sftp.data(id, Buffer.alloc(0))),
  'no answer to CLOSE': (sftp) => instead(sftp, 'CLOSE', () => undefined),
  'CLOSE always fails': (sftp) => instead(sftp, 'CLOSE', (id) => sftp.status(id, status.FAILURE)),
  'the home directory is elsewhere': (sftp) =>
    instead(sftp, 'REALPATH', (id) =>
      sftp.name(id, [{ filename: `../../etc${escape}`, longname: escape, attrs: {} as Attributes }]),
    ),
  'refusals have control characters': (sftp) => {
    for (const event of ['READ', 'WRITE'])
      instead(sftp, event, (id) => sftp.status(id, status.FAILURE, escape + 'x'.repeat(100_000)));
  },
  'answers to requests that were not sent': (sftp) =>
    instead(sftp, 'READ', (id) => {
      sftp.data(id + 1000, Buffer.alloc(4));
      return 'honest';
    }),
  'every directory has another directory': (sftp) => {
    const isRead = new Set<string>();
    instead(sftp, 'READDIR', (id, handle: Buffer) => {
      const directory = { filename: 'd', longname: '', attrs: { ...file, mode: 0o040755 } };
      if (isRead.has(handle.toString('hex'))) sftp.status(id, status.EOF);
      else sftp.name(id, [directory]);
      isRead.add(handle.toString('hex'));
    });
    let opened = 0;
    instead(sftp, 'OPENDIR', (id) => sftp.handle(id, Buffer.from(`${(opened += 1)}`)));
  },
  'answers have another type': (sftp) => {
    instead(sftp, 'FSTAT', (id) => sftp.status(id, status.OK));
    instead(sftp, 'READDIR', (id) => sftp.data(id, Buffer.from('x')));
  },
  'opening for writing opens nothing': (sftp) =>
    instead(sftp, 'OPEN', (id, _name, flags: number) => {
      if ((flags & mode.WRITE) === 0) return 'honest';
      sftp.handle(id, Buffer.from('none'));
      return 'answered';
    }),
  'writes are acknowledged and dropped': (sftp) => instead(sftp, 'WRITE', (id) => sftp.status(id, status.OK)),
};

for (const [name, lie] of Object.entries(lies))
  t.test(name, async (t) => {
    const server = await startPlainSftpServer(t, { spoil: lie });
    const bundle = path.join(server.root, 'source/bundle');
    mkdirSync(bundle, { recursive: true });
    writeFileSync(path.join(bundle, 'page.html'), content);
    const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: ['page.html'] };
    writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify(manifest));
    const open = (place: string): Promise<Storage> =>
      sftpStorage(sftpLocationOf(server, path.join(server.root, place)), {
        ...{ clock: systemClock, log: silentLog, secrets: noSecrets, answerWithinMs },
      });

    const destination = memoryStorage({ flavour: 'files' });
    await endsWell(t, 'source', async () => publishFrom(await open('source'), destination));
    const published = await snapshot(destination);
    t.ok([undefined, content].includes(published.get(`${bundlePath}/page.html`)), 'no other bytes');

    await endsWell(t, 'destination', async () => {
      const storage = await open('web');
      try {
        const { action } = await publishTo(storage, { files: { 'page.html': content } });
        if (action !== 'publish_new') return;
        const stored = path.join(server.root, 'web', bundlePath, 'page.html');
        t.equal(readFileSync(stored, 'utf8'), content, 'a success has the bytes');
      } finally {
        await storage.close();
      }
    });
  });

t.test('a file without a time has none, and one without a size is rejected', async (t) => {
  let attrs: Partial<Attributes> = { mode: file.mode, size: 4 };
  const server = await startPlainSftpServer(t, {
    spoil: (sftp) => {
      const names = sftp.name.bind(sftp);
      sftp.name = (id, list) =>
        names(
          id,
          [list].flat().map((one) => ({ ...one, attrs: attrs as Attributes })),
        );
      instead(sftp, 'LSTAT', (id) => sftp.attrs(id, attrs as Attributes));
    },
  });
  const storage = await sftpStorage(sftpLocationOf(server, server.root), {
    ...{ clock: systemClock, log: silentLog, secrets: noSecrets, answerWithinMs },
  });
  t.match(await storage.stat(keyOf('page.html')), { size: 4, modifiedAt: null });
  attrs = { mode: file.mode };
  await t.rejects(storage.stat(keyOf('page.html')), { message: '"page.html" has the size undefined' });
  writeFileSync(path.join(server.root, 'page.html'), content);
  await t.rejects(
    async () => {
      for await (const entry of storage.list('', { recursive: false })) t.comment(entry.key);
    },
    { code: 'storage_permanent', message: 'has the size undefined' },
  );
  await storage.close();
});

async function publishFrom(source: Storage, destination: Storage): Promise<void> {
  try {
    const { candidates } = await discoverBundles(source);
    for (const candidate of candidates) {
      const bundle = await loadBundle(source, candidate, { backend: 'sftp', id: 'source' });
      const target = {
        bundle,
        owner,
        destination: destinationOf('replacement'),
        destinationPath: bundlePath,
      };
      await publishBundle(contextWith(testClock()), destination, target, { dryRun: false, force: false });
    }
  } finally {
    await source.close();
  }
}

/** `work` succeeds, or fails with an error for people. */
async function endsWell(t: Test, as: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
    t.pass(`${as}: done`);
  } catch (error) {
    t.ok(error instanceof WaybillError, `${as}: ${String(error)}`);
    const { message } = error as Error;
    t.comment(`${as}: ${message.slice(0, 150)}`);
    t.notMatch(message, /\p{Cc}|undefined/u, as);
    t.ok(message.length < 2_000, as);
  }
}
