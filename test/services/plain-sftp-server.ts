import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, type Stats } from 'node:fs';
import {
  chmod,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  rmdir,
  stat,
  unlink,
  utimes,
} from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import ssh2, {
  type Attributes,
  type AuthContext,
  type Connection,
  type ParsedKey,
  type SFTPWrapper,
} from 'ssh2';
import type { Test } from 'tap';
import { makeKeys, type SftpServer } from './sshd.ts';

const { Server, utils } = ssh2;
const { STATUS_CODE: status, OPEN_MODE: mode } = utils.sftp;

/**
 * A minimal server for version 3 of SFTP: no extensions, and a rename that rejects an existing name, as in
 * the protocol. Serves local directories unchanged. With `laterCodes`, it uses the status codes of version 6
 * of the protocol, like Apache MINA SSHD. `spoil` replaces handlers of a new session, for a server that
 * lies.
 */
export async function startPlainSftpServer(
  t: Pick<Test, 'teardown'>,
  { laterCodes = false, spoil }: { laterCodes?: boolean; spoil?: (sftp: SFTPWrapper) => void } = {},
): Promise<SftpServer> {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-plain-sftp-'));
  const files = await makeKeys(directory);
  const allowed = utils.parseKey(readFileSync(`${files.clientKeyFile}.pub`));
  if (allowed instanceof Error) throw allowed;
  const hostKey = readFileSync(files.hostKeyFile.replace(/\.pub$/, ''));
  const clients = new Set<Connection>();
  const serve = (client: Connection): void => {
    clients.add(client);
    client.on('close', () => clients.delete(client));
    client.on('error', () => clients.delete(client));
    client.on('authentication', (attempt) => {
      if (isAllowed(attempt, allowed)) attempt.accept();
      else attempt.reject(['publickey']);
    });
    client.on('ready', () =>
      client.on('session', (accept) =>
        accept().on('sftp', (acceptSftp) => {
          const sftp = acceptSftp();
          answer(sftp, files.root, laterCodes);
          spoil?.(sftp);
        }),
      ),
    );
  };

  let server: net.Server | undefined;
  let port = 0;
  const stop = async (): Promise<void> => {
    if (server === undefined) return;
    const closing = server;
    server = undefined;
    for (const client of clients) client.end();
    const closed = once(closing, 'close');
    closing.close();
    await closed;
  };
  const start = async (): Promise<void> => {
    const ssh = new Server({ hostKeys: [hostKey] }, serve);
    // Sends small responses immediately, instead of waiting for the acknowledgment of the previous one.
    server = net.createServer({ noDelay: true }, (socket) => ssh.injectSocket(socket));
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as net.AddressInfo);
  };
  t.teardown(async () => {
    await stop();
    rmSync(directory, { recursive: true, force: true });
  });
  await start();
  const restart = async (): Promise<void> => {
    await stop();
    await start();
  };
  return { host: '127.0.0.1', port, user: 'publisher', ...files, restart, stop };
}

/** A query whether the key is acceptable has no signature; the login itself has one. */
function isAllowed(attempt: AuthContext, allowed: ParsedKey): boolean {
  if (attempt.method !== 'publickey' || !attempt.key.data.equals(allowed.getPublicSSH())) return false;
  const { signature, blob } = attempt;
  return signature === undefined || blob === undefined || allowed.verify(blob, signature, attempt.hashAlgo);
}

type Handle = { file: FileHandle } | { names: string[]; directory: string };

/** Answers each request when it is done. A failure has its SFTP status. */
function answer(sftp: SFTPWrapper, home: string, laterCodes: boolean): void {
  const handles = new Map<number, Handle>();
  let lastHandle = 0;
  const at = (name: string): string => path.resolve(home, name);
  const give = (id: number, handle: Handle): void => {
    const key = Buffer.alloc(4);
    key.writeUInt32BE((lastHandle += 1));
    handles.set(lastHandle, handle);
    sftp.handle(id, key);
  };
  const fileOf = (handle: Buffer): FileHandle => {
    const found = handles.get(handle.readUInt32BE(0));
    if (found === undefined || !('file' in found)) throw new Error('no such handle');
    return found.file;
  };
  const does = (id: number, work: () => Promise<unknown>): void => {
    work().catch((error: unknown) => {
      const later = laterCodes ? laterCodeOf(error) : undefined;
      if (later === undefined) sftp.status(id, codeOf(error), String(error));
      else sendStatus(sftp, id, later);
    });
  };
  const succeeds = (id: number, work: () => Promise<unknown>): void =>
    does(id, async () => {
      await work();
      sftp.status(id, status.OK);
    });

  // A client that has finished sending waits until the server disconnects, too.
  sftp.on('end', () => sftp.end());
  sftp.on('REALPATH', (id, name) =>
    sftp.name(id, [{ filename: at(name), longname: at(name), attrs: {} as Attributes }]),
  );
  sftp.on('OPEN', (id, name, flags) =>
    does(id, async () => give(id, { file: await open(at(name), flagsOf(flags), 0o644) })),
  );
  sftp.on('READ', (id, handle, offset, length) =>
    does(id, async () => {
      const { bytesRead, buffer } = await fileOf(handle).read(Buffer.alloc(length), 0, length, offset);
      if (bytesRead === 0) sftp.status(id, status.EOF);
      else sftp.data(id, buffer.subarray(0, bytesRead));
    }),
  );
  sftp.on('WRITE', (id, handle, offset, data) =>
    succeeds(id, async () => fileOf(handle).write(data, 0, data.length, offset)),
  );
  sftp.on('FSTAT', (id, handle) =>
    does(id, async () => sftp.attrs(id, attributesOf(await fileOf(handle).stat()))),
  );
  sftp.on('STAT', (id, name) => does(id, async () => sftp.attrs(id, attributesOf(await stat(at(name))))));
  sftp.on('LSTAT', (id, name) => does(id, async () => sftp.attrs(id, attributesOf(await lstat(at(name))))));
  sftp.on('SETSTAT', (id, name, attrs) => succeeds(id, async () => setAttributes(at(name), attrs)));
  sftp.on('FSETSTAT', (id, handle, { mode }: Partial<Attributes>) =>
    succeeds(id, async () => {
      if (mode !== undefined) await fileOf(handle).chmod(mode & 0o7777);
    }),
  );
  sftp.on('CLOSE', (id, handle) =>
    succeeds(id, async () => {
      const key = handle.readUInt32BE(0);
      const found = handles.get(key);
      handles.delete(key);
      if (found !== undefined && 'file' in found) await found.file.close();
    }),
  );
  sftp.on('OPENDIR', (id, name) =>
    does(id, async () => give(id, { names: await readdir(at(name)), directory: at(name) })),
  );
  sftp.on('READDIR', (id, handle) =>
    does(id, async () => {
      const found = handles.get(handle.readUInt32BE(0));
      if (found === undefined || !('names' in found)) throw new Error('no such handle');
      const names = found.names.splice(0, 100);
      if (names.length === 0) {
        sftp.status(id, status.EOF);
        return;
      }
      const entries = await Promise.all(
        names.map(async (filename) => ({
          filename,
          longname: filename,
          attrs: attributesOf(await lstat(path.join(found.directory, filename))),
        })),
      );
      sftp.name(id, entries);
    }),
  );
  sftp.on('REMOVE', (id, name) => succeeds(id, async () => unlink(at(name))));
  sftp.on('RMDIR', (id, name) =>
    succeeds(id, async () => {
      // Apache MINA SSHD checks first, and treats a missing path as a file that is not a directory.
      if (laterCodes && !(await lstat(at(name)).catch(() => undefined))?.isDirectory())
        throw Object.assign(new Error('not a directory'), { code: 'ENOTDIR' });
      await rmdir(at(name));
    }),
  );
  sftp.on('MKDIR', (id, name) => succeeds(id, async () => mkdir(at(name))));
  sftp.on('RENAME', (id, from, to) =>
    succeeds(id, () =>
      oneAtATime(async () => {
        if ((await lstat(at(to)).catch(() => undefined)) !== undefined)
          throw Object.assign(new Error('the new name is taken'), { code: 'EEXIST' });
        await rename(at(from), at(to));
      }),
    ),
  );
}

let last: Promise<void> = Promise.resolve();

/** Check and rename are two steps here, but must be atomic for the client. */
function oneAtATime(work: () => Promise<void>): Promise<void> {
  const mine = last.then(work);
  last = mine.catch(() => undefined);
  return mine;
}

async function setAttributes(file: string, { mode, atime, mtime }: Partial<Attributes>): Promise<void> {
  if (mode !== undefined) await chmod(file, mode & 0o7777);
  if (mtime !== undefined) await utimes(file, atime ?? mtime, mtime);
}

function attributesOf({ mode, uid, gid, size, atimeMs, mtimeMs }: Stats): Attributes {
  return { mode, uid, gid, size, atime: Math.floor(atimeMs / 1000), mtime: Math.floor(mtimeMs / 1000) };
}

function flagsOf(flags: number): string {
  if ((flags & mode.WRITE) === 0) return 'r';
  if ((flags & mode.EXCL) !== 0) return 'wx+';
  return (flags & mode.TRUNC) !== 0 ? 'w+' : 'r+';
}

function codeOf(error: unknown): number {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return status.NO_SUCH_FILE;
  return code === 'EACCES' || code === 'EPERM' ? status.PERMISSION_DENIED : status.FAILURE;
}

const laterCodes: Record<string, number> = {
  EEXIST: 11,
  ENOSPC: 14,
  ENOTEMPTY: 18,
  ENOTDIR: 19,
  ENAMETOOLONG: 20,
  ELOOP: 21,
  EISDIR: 24,
};

function laterCodeOf(error: unknown): number | undefined {
  return laterCodes[(error as NodeJS.ErrnoException).code ?? ''];
}

/** `ssh2` itself rejects any other codes than those of version 3. */
function sendStatus(sftp: SFTPWrapper, id: number, code: number): void {
  const { _protocol: protocol, outgoing } = sftp as unknown as {
    _protocol: { channelData: (channel: number, bytes: Buffer) => void };
    outgoing: { id: number; window: number };
  };
  const bytes = Buffer.alloc(21);
  bytes.writeUInt32BE(bytes.length - 4, 0);
  bytes[4] = 101; // SSH_FXP_STATUS; an empty message and no language follow.
  bytes.writeUInt32BE(id, 5);
  bytes.writeUInt32BE(code, 9);
  outgoing.window -= bytes.length;
  protocol.channelData(outgoing.id, bytes);
}
