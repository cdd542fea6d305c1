import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, rmSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { WaybillError } from '../../core/lib/errors.ts';

/*
 * One process alone may use a directory. Its holder listens on a socket in it: whoever can connect knows that
 * the holder lives, in whatever container it runs, and when it dies, however it does, the kernel refuses
 * further connections. Which socket is the holder's stands in the data itself, where it can be replaced in
 * one step.
 */
const nameForm = /^daemon-[0-9a-f]{8}\.sock$/;

/** What a socket's address has room for, on every system. */
const longestAddress = 100;

export interface DirectoryLock {
  /** The name that is to be claimed in the data. */
  readonly name: string;
  /** Throws `queue_unusable` if the process that claimed this name lives. */
  refuseIfAlive(name: string): Promise<void>;
  /**
   * Whether no other process that lives listens in the directory: of two that came at the same moment at
   * least one is told of the other.
   */
  isAlone(): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * Prepares to hold the directory. Throws `queue_unusable` if a process that lives holds it, which is asked
 * before anything in it is opened.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const opened = openSync(directory, 'r');
  const address = (name: string): string => {
    const plain = path.join(directory, name);
    return Buffer.byteLength(plain) <= longestAddress ? plain : `/proc/self/fd/${opened}/${name}`;
  };
  const refuseIfAlive = async (name: string): Promise<void> => {
    if (await answers(address(name))) throw inUse(directory);
  };
  try {
    const sockets = readdirSync(directory).filter((name) => nameForm.test(name));
    for (const name of sockets) await refuseIfAlive(name);
    const name = `daemon-${randomBytes(4).toString('hex')}.sock`;
    const server = await listenOn(address(name));
    // One that was only just made did not answer yet.
    for (const old of sockets)
      if (await answers(address(old))) {
        await closed(server);
        throw inUse(directory);
      } else rmSync(path.join(directory, old), { force: true });
    return {
      name,
      refuseIfAlive,
      isAlone: async () => {
        const others = readdirSync(directory).filter((other) => nameForm.test(other) && other !== name);
        for (const other of others) if (await answers(address(other))) return false;
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

const ofTheDead = new Set(['ECONNREFUSED', 'ENOENT']);

function answers(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // Any other failure, such as a socket of another user, is no sign of death.
    socket.once('error', (error) => resolve(!('code' in error && ofTheDead.has(String(error.code)))));
  });
}

function listenOn(address: string): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, () => {
      server.unref();
      server.on('error', () => undefined);
      resolve(server);
    });
  });
}
