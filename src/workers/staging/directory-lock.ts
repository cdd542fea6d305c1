import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, rmSync } from 'node:fs';
import type { Server } from 'node:net';
import path from 'node:path';
import { WaybillError } from '../../core/lib/errors.ts';
import { hasListener, listenAt, socketAddress } from '../../core/lib/live-socket.ts';

/*
 * Limits a directory to one process. Its holder listens on a socket in it. A process that can connect knows
 * that the holder is alive, even in another container. After the holder's death, the kernel refuses
 * connections. The data itself contains the name of the holder's socket, because it can be replaced there
 * atomically.
 */
const nameForm = /^daemon-[0-9a-f]{8}\.sock$/;

export interface DirectoryLock {
  /** The name to claim in the data. */
  readonly name: string;
  /** Throws `queue_unusable` if the process that claimed this name is alive. */
  refuseIfAlive(name: string): Promise<void>;
  /**
   * Reports whether no other live process listens in the directory. If two processes start at the same
   * moment, at least one of them gets false.
   */
  isAlone(): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * Prepares to hold the directory. Throws `queue_unusable` if a live process holds it, before any file in it
 * is opened.
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
    // A socket created just before may not have responded to the first check.
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
