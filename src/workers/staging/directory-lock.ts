import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, rmSync } from 'node:fs';
import type { Server } from 'node:net';
import path from 'node:path';
import { WaybillError } from '../../core/lib/errors.ts';
import { hasListener, listenAt, socketAddress } from '../../core/lib/live-socket.ts';

/*
 * Makes sure that only one process uses a directory. That process listens on a socket in the directory. Any
 * other process that is able to connect knows that it's still alive, even if it runs in a different
 * container. Once it has died, the kernel rejects connections. The name of its socket is also stored in the
 * data itself, because it can be replaced atomically there.
 */
const nameForm = /^daemon-[0-9a-f]{8}\.sock$/;

export interface DirectoryLock {
  /** The socket's name. Store it along with the data. */
  readonly name: string;
  /** Throws `queue_unusable` if the process whose socket has this name is still alive. */
  refuseIfAlive(name: string): Promise<void>;
  /**
   * Reports whether no other process is listening in this directory. If two processes start at the same time,
   * at least one of them gets false.
   */
  isAlone(): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * Locks the directory for this process, before it opens any of the files. Throws `queue_unusable` if another
 * process is using the directory.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const opened = openSync(directory, 'r');
  const address = (name: string): string => socketAddress(directory, opened, name);
  const refuseIfAlive = async (name: string): Promise<void> => {
    if (await hasListener(address(name))) throw inUse(directory);
  };
  try {
    const sockets = readdirSync(directory).filter((name) => nameForm.test(name));
    for (const name of sockets) await refuseIfAlive(name);
    const name = `daemon-${randomBytes(4).toString('hex')}.sock`;
    const server = await listenAt(address(name));
    // Check the other sockets again, because their processes may not have been listening yet.
    for (const old of sockets)
      if (await hasListener(address(old))) {
        await closed(server);
        throw inUse(directory);
      } else rmSync(path.join(directory, old), { force: true });
    return {
      name,
      refuseIfAlive,
      isAlone: async () => {
        const others = readdirSync(directory).filter((other) => nameForm.test(other) && other !== name);
        for (const other of others) if (await hasListener(address(other))) return false;
        return true;
      },
      release: async () => {
        await closed(server);
        closeSync(opened);
      },
    };
  } catch (error) {
    closeSync(opened);
    throw error;
  }
}

function inUse(directory: string): WaybillError {
  return new WaybillError('queue_unusable', `another daemon uses the queue in ${directory}`, {
    hint: 'stop it first, or give each daemon a directory of its own (server.queue.directory)',
  });
}

function closed(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.close(resolve));
}
