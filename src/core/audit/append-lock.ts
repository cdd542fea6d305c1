import { randomBytes } from 'node:crypto';
import { closeSync, openSync, type Stats } from 'node:fs';
import { type FileHandle, lchown, lstat, readdir, readlink, rm, stat, symlink } from 'node:fs/promises';
import type { Server } from 'node:net';
import path from 'node:path';
import type { Clock } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { hasListener, listenAt, socketAddress } from '../lib/live-socket.ts';
import { errnoOf, isAbsent } from '../lib/system-errors.ts';

/*
 * Makes sure that only one process on a machine appends to a trail at a time. The lock file points to a
 * socket that its owner listens on. When the owner dies, the kernel refuses connections to that socket, so a
 * lock never outlives its process. Unlike process ids, this works across containers.
 */

const maxWaitMs = 15_000;
const pauseMs = 3;

export interface AppendLock {
  /**
   * Runs `work` while no other process can append. Throws an `audit_unavailable` error if it cannot get the
   * lock. Must not be called again before it has ended.
   */
  hold<T>(work: () => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** A socket in the directory that shows that its owner is alive. */
interface Presence {
  isAlive: (id: string) => Promise<boolean>;
  /** If the directory was replaced, listens in the new one, where other processes look for the socket. */
  renew: () => Promise<void>;
  close: () => Promise<void>;
}

/** Listens in a directory, which must exist. Throws system errors. */
async function openPresence(directory: string, owner: string): Promise<Presence> {
  let opened = openSync(directory, 'r');
  const socket = path.join(directory, socketName(owner));
  const addressOf = (id: string): string => socketAddress(directory, opened, socketName(id));
  const listen = async (): Promise<Server> => {
    const listening = await listenAt(addressOf(owner));
    await shareWithOwner(directory, entryAt(socket));
    return listening;
  };
  let server = await listen();
  const close = async (): Promise<void> => {
    await new Promise((resolve) => server.close(resolve));
    closeSync(opened);
  };
  return {
    isAlive: (id) => hasListener(addressOf(id)),
    renew: async () => {
      if ((await lstat(socket).catch(() => null)) !== null) return;
      const found = openSync(directory, 'r');
      // Closing a server removes its socket by name, so this comes first.
      await close();
      opened = found;
      server = await listen();
    },
    close,
  };
}

/** Prepares the lock for a directory, which must exist. Throws system errors. */
export async function openAppendLock(
  directory: string,
  clock: Pick<Clock, 'sleep' | 'monotonic' | 'now'>,
): Promise<AppendLock> {
  const owner = randomBytes(8).toString('hex');
  const pathOf = (name: string): string => path.join(directory, name);
  const { isAlive, renew, close } = await openPresence(directory, owner);
  await removeSockets(directory, { clock, isAlive });

  /**
   * Takes the lock `name`. If its owner is dead, removes it first; no two processes can do that at the same
   * time.
   */
  async function take(name: string, end: number): Promise<void> {
    for (;;) {
      try {
        await symlink(owner, pathOf(name));
        return;
      } catch (error) {
        if (errnoOf(error) !== 'EEXIST') throw error;
      }
      const holder = await holderOf(pathOf(name));
      // Its removal failed, for example because the directory was away. `hold` is called once at a time.
      if (holder === owner) return;
      if (holder !== null && !(await isAlive(holder))) await breakLock(name, holder, end);
      else if (clock.monotonic() > end) throw lockTaken();
      else if (holder !== null) await clock.sleep(pauseMs);
    }
  }

  /**
   * Removes the lock of a dead process. Ids are never used twice, so nothing but this can remove that lock.
   */
  async function breakLock(name: string, dead: string, end: number): Promise<void> {
    const breaker = `${name}-${dead}`;
    await take(breaker, end);
    try {
      if ((await holderOf(pathOf(name))) === dead) await rm(pathOf(name), { force: true });
    } finally {
      await rm(pathOf(breaker), { force: true });
    }
  }

  return {
    hold: async (work) => {
      await renew();
      await take('lock', clock.monotonic() + maxWaitMs);
      try {
        return await work();
      } finally {
        await rm(pathOf('lock'), { force: true });
      }
    },
    close,
  };
}

const socketName = (id: string): string => `writer-${id}.sock`;
const socketForm = /^writer-([0-9a-f]{16})\.sock$/;

/**
 * Returns the id of the lock's owner. The lock is a symbolic link that points to the id, since a link can be
 * created atomically and does not take up space.
 */
async function holderOf(lock: string): Promise<string | null> {
  try {
    return await readlink(lock);
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
}

/** A socket that is newer than this may belong to a process that is just about to listen. */
const minDeadMs = 60_000;

/** Removes the sockets of processes that are dead. */
async function removeSockets(
  directory: string,
  { clock, isAlive }: { clock: Pick<Clock, 'now'>; isAlive: (id: string) => Promise<boolean> },
): Promise<void> {
  for (const name of await readdir(directory)) {
    const id = socketForm.exec(name)?.[1];
    if (id === undefined || (await isAlive(id))) continue;
    const at = path.join(directory, name);
    const { mtimeMs } = await lstat(at).catch(() => ({ mtimeMs: Infinity }));
    if (clock.now().getTime() - mtimeMs > minDeadMs) await rm(at, { force: true });
  }
}

/** A socket cannot be opened, but its name need not be followed. */
function entryAt(at: string): Parameters<typeof shareWithOwner>[1] {
  return { stat: () => lstat(at), chown: (uid, gid) => lchown(at, uid, gid) };
}

/**
 * Gives a file that root created to the owner of the directory, so that the daemon can use it. That user can
 * replace the file at any time, so its name must not be followed.
 */
export async function shareWithOwner(
  directory: string,
  file: Pick<FileHandle, 'chown'> & { stat(): Promise<Pick<Stats, 'uid'>> },
): Promise<void> {
  const { uid, gid } = await stat(directory);
  if ((await file.stat()).uid !== uid) await file.chown(uid, gid).catch(() => undefined);
}

function lockTaken(): WaybillError {
  return new WaybillError('audit_unavailable', 'another process holds the lock of the audit trail', {
    hint: 'find the process that does not finish its write to audit.directory, and end it',
  });
}
