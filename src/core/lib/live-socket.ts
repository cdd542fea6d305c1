import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { errnoOf } from './system-errors.ts';

/*
 * A process shows that it is alive by listening on a socket in a directory. After it dies, the kernel refuses
 * connections. This also works across containers, in which process ids differ.
 */

/** A length that socket addresses may have on every system. */
const maxAddressBytes = 100;

/**
 * Returns the address of a socket in a directory. `opened` is a descriptor of the directory, used if the path
 * is long.
 */
export function socketAddress(directory: string, opened: number, name: string): string {
  const plain = path.join(directory, name);
  return Buffer.byteLength(plain) <= maxAddressBytes ? plain : `/proc/self/fd/${opened}/${name}`;
}

const codesOfDead = new Set(['ECONNREFUSED', 'ENOENT']);

/** Returns true if a live process listens at the address. */
export function hasListener(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // Any other failure, such as missing permissions, does not mean that the process is dead.
    socket.once('error', (error) => resolve(!codesOfDead.has(errnoOf(error) ?? '')));
  });
}

/** Listens until the server is closed. Does not keep the process alive. Throws system errors. */
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
