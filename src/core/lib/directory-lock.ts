import { randomBytes, randomInt } from 'node:crypto';
import { closeSync, openSync, readdirSync, rmSync } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import type { Server } from 'node:net';
import path from 'node:path';
import type { Clock } from './clock.ts';
import { hasListener, listenAt, socketAddress } from './live-socket.ts';
import { errnoOf } from './system-errors.ts';

/*
 * Makes sure that only one process of a machine uses a directory. That process listens on a socket in the
 * directory. Any other process that is able to connect knows that it's still alive, even if it runs in a
 * different container on the same volume. Process ids do not show that: each container has its own, and the
 * first process of each is 1. Once the process has died, the kernel rejects connections.
 *
 * Only the kernel of the listener accepts connections. If two machines (or virtual machines) share the
 * directory over NFS, SMB or 9p, each takes the other's process for dead. Such a directory is not protected.
 */
const nameForm = /^daemon-[0-9a-f]{8}\.sock$/;

/**
 * The maximum number of attempts. If two processes lock the same directory at the same time, both of them
 * back off and try again.
 */
const tries = 10;
const maxPauseMs = 20;

export interface DirectoryLock {
  /** The socket's name. Data that can be replaced atomically may store it, to name its owner. */
  readonly name: string;
  /** Reports whether the process whose socket has this name is still alive. */
  isAlive(name: string): Promise<boolean>;
  /**
   * Reports whether no other process is listening in this directory. If two processes start at the same time,
   * at least one of them gets false.
   */
  isAlone(): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * Locks the directory for this process, before it opens any of the files. Returns null if another process is
 * using the directory. Throws system errors.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock | null> {
  const opened = openSync(directory, 'r');
  const isAlive = (name: string): Promise<boolean> => hasListener(socketAddress(directory, opened, name));
  const isAnyAlive = async (names: readonly string[]): Promise<boolean> => {
    for (const name of names) if (await isAlive(name)) return true;
    return false;
  };
  const sockets = (): string[] => readdirSync(directory).filter((name) => nameForm.test(name));
  let server: Server | null = null;
  const release = async (): Promise<void> => {
    if (server !== null) await closed(server);
    closeSync(opened);
  };
  try {
    const others = sockets();
    const name = `daemon-${randomBytes(4).toString('hex')}.sock`;
    if (!(await isAnyAlive(others))) {
      server = await listenAt(socketAddress(directory, opened, name));
      // Check the other sockets again, because their processes may not have been listening yet.
      if (!(await isAnyAlive(others))) {
        for (const dead of others) rmSync(path.join(directory, dead), { force: true });
        const isAlone = async (): Promise<boolean> =>
          !(await isAnyAlive(sockets().filter((other) => other !== name)));
        return { name, isAlive, isAlone, release };
      }
    }
  } catch (error) {
    await release();
    throw error;
  }
  await release();
  return null;
}

/**
 * Creates the directory if necessary, and locks it for this process alone. Returns a function that releases
 * it, and removes it if it is empty. Returns null if another process is using the directory. Throws system
 * errors.
 */
export async function createLockedDirectory(
  directory: string,
  clock: Pick<Clock, 'sleep'>,
): Promise<(() => Promise<void>) | null> {
  for (let remainingTries = tries; remainingTries > 0; remainingTries -= 1) {
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const lock = await lockDirectory(directory);
      if (lock === null) return null;
      // Both processes may have looked before the other one was listening. A process that sees another one
      // backs off, so a directory is never used by two of them.
      let isAlone = false;
      try {
        isAlone = await lock.isAlone();
      } finally {
        if (!isAlone) await lock.release();
      }
      if (isAlone)
        return async () => {
          await lock.release();
          await rmdir(directory).catch(() => undefined); // The directory is not empty.
        };
    } catch (error) {
      // The process that was using the directory has just deleted it.
      if (errnoOf(error) !== 'ENOENT') throw error;
    }
    await clock.sleep(randomInt(maxPauseMs));
  }
  return null;
}

function closed(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.close(resolve));
}
