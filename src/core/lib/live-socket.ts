import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { errnoOf } from './system-errors.ts';

/*
 * A process that listens on a socket in a directory shows that it is alive. After its death, the kernel
 * refuses connections, also across containers that number processes differently.
 */

/** Maximum length of a socket address on every system. */
const maxAddressBytes = 100;

/** The address of a socket in a directory. `opened` is a descriptor of the directory, for long paths. */
export function socketAddress(directory: string, opened: number, name: string): string {
  const plain = path.join(directory, name);
  return Buffer.byteLength(plain) <= maxAddressBytes ? plain : `/proc/self/fd/${opened}/${name}`;
}

const codesOfDead = new Set(['ECONNREFUSED', 'ENOENT']);

/** Whether a live process listens there. */
export function hasListener(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // Any other failure, such as missing rights, is not a sign of death.
    socket.once('error', (error) => resolve(!codesOfDead.has(errnoOf(error) ?? '')));
  });
}

/** Listens until the server is closed. Does not keep the process alive. Rejects with the system's error. */
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
