import { once } from 'node:events';
import net from 'node:net';
import type { Test } from 'tap';

/** A TCP proxy in front of a test server, which breaks connections on demand. */
export interface CuttingProxy {
  port: number;
  /**
   * Passes `bytes` more bytes in that direction, in any pieces, and then cuts the connection, and the next
   * ones at their first byte, `times` in all. If it cuts `from the server`, requests are executed and their
   * responses are lost.
   */
  cutAfter(bytes: number, times?: number, direction?: Direction): void;
  /** From now on, passes nothing in either direction, and closes nothing, until `resume`. */
  hang(): void;
  resume(): void;
  /** From now on, passes at most this many bytes per second to the server. */
  slowTo(bytesPerSecond: number): void;
  /** Cuts open connections. */
  cutAll(): void;
  /** The number of connections that were cut. */
  cuts(): number;
  /** The number of bytes received in that direction. */
  passed(direction: Direction): number;
}

export type Direction = 'to the server' | 'from the server';

export async function startCuttingProxy(t: Pick<Test, 'teardown'>, target: number): Promise<CuttingProxy> {
  const pairs = new Set<readonly [net.Socket, net.Socket]>();
  let [left, times, cut, isHanging, pace] = [Infinity, 0, 0, false, Infinity];
  const passed: Record<Direction, number> = { 'to the server': 0, 'from the server': 0 };
  let counted: Direction = 'to the server';
  const destroy = (pair: readonly [net.Socket, net.Socket]): void => {
    pairs.delete(pair);
    for (const socket of pair) socket.destroy();
  };
  const server = net.createServer((client) => {
    const upstream = net.connect(target, '127.0.0.1');
    const pair = [client, upstream] as const;
    pairs.add(pair);
    const forward = (from: net.Socket, to: net.Socket, direction: Direction): void => {
      from.on('data', (bytes) => {
        passed[direction] += bytes.length;
        const isCut = times > 0 && direction === counted && bytes.length > left;
        if (direction === counted) left -= bytes.length;
        if (isCut) {
          const last = bytes.subarray(0, left + bytes.length);
          times -= 1;
          cut += 1;
          left = times > 0 ? 0 : Infinity;
          from.removeAllListeners('data').pause();
          if (last.length === 0) destroy(pair);
          else to.write(last, () => destroy(pair));
        } else if (direction === 'to the server' && pace < Infinity) {
          from.pause();
          to.write(bytes);
          setTimeout(() => isHanging || from.resume(), (bytes.length / pace) * 1000);
        } else if (!to.write(bytes)) {
          from.pause();
          to.once('drain', () => isHanging || from.resume());
        }
      });
      from.on('end', () => to.end());
      from.on('error', () => destroy(pair));
      from.on('close', () => destroy(pair));
      if (isHanging) from.pause();
    };
    forward(client, upstream, 'to the server');
    forward(upstream, client, 'from the server');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const pair of [...pairs]) destroy(pair);
    server.close();
    await once(server, 'close');
  });
  return {
    port: (server.address() as net.AddressInfo).port,
    cutAfter(bytes, count = 1, direction = 'to the server') {
      [left, times, counted] = [bytes, count, direction];
    },
    slowTo(bytesPerSecond) {
      pace = bytesPerSecond;
    },
    hang() {
      isHanging = true;
      for (const pair of pairs) for (const socket of pair) socket.pause();
    },
    resume() {
      isHanging = false;
      for (const pair of pairs) for (const socket of pair) socket.resume();
    },
    cutAll() {
      for (const pair of [...pairs]) {
        cut += 1;
        destroy(pair);
      }
    },
    cuts: () => cut,
    passed: (direction) => passed[direction],
  };
}
