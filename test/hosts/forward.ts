import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import type { Test } from 'tap';

/** Makes a server on loopback reachable at another address of this machine. Returns the port there. */
export async function forward(t: Pick<Test, 'teardown'>, address: string, port: number): Promise<number> {
  const open = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    const onward = net.connect(port, '127.0.0.1');
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      open.add(one);
      one.on('error', () => other.destroy()).on('close', () => open.delete(one));
      one.pipe(other);
    }
  });
  server.listen(0, address);
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return (server.address() as AddressInfo).port;
}
