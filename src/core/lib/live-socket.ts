import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { errnoOf } from './system-errors.ts';

/*
 * Shows that a process is alive. It listens on a socket in some directory, and once it is dead, the kernel
 * refuses connections to that socket. Unlike process ids, this works across containers.
 */

/** Socket addresses of this length work on every system. */
const maxAddressBytes = 100;

/**
 * Returns the address of a socket in a directory. If the path is too long, the address goes through `opened`,
 * which is a file descriptor of the directory.
 */
export function socketAddress(directory: string, opened: number, name: string): string {
  const plain = path.join(directory, name);
  return Buffer.byteLength(plain) <= maxAddressBytes ? plain : `/proc/self/fd/${opened}/${name}`;
}

const codesOfDead = new Set(['ECONNREFUSED', 'ENOENT']);

/** Reports whether a process that is alive is listening at the address. */
export function hasListener(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // A different error, such as a missing permission, does not mean that the process is dead.
    socket.once('error', (error) => resolve(!codesOfDead.has(errnoOf(error) ?? '')));
  });
}

/** Listens until the server is closed, but lets the process exit. Throws system errors. */
export function listenAt(address: string): Promise<Server> {
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
