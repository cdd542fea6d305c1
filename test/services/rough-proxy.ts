import { once } from 'node:events';
import net from 'node:net';
import type { Test } from 'tap';

/** A TCP proxy that simulates a bad network. The caller draws the random numbers for each connection. */
export interface RoughProxy {
  port: number;
  /** The number of connections by fault. */
  done: Record<Fate, number>;
}

const fates = ['passed', 'cut body', 'dropped answer', 'stalled'] as const;
export type Fate = (typeof fates)[number];

/**
 * The number of bytes from the client, or of the response, before the fault. Large enough for all of them.
 */
const bodyBytes = 3000;
const answerBytes = 600;

/**
 * Half of the connections pass. On the others, a body is truncated, a response is dropped after its
 * beginning, or nothing passes any more and nothing is closed until the client disconnects.
 */
export async function startRoughProxy(
  t: Pick<Test, 'teardown'>,
  target: number,
  random: () => number,
): Promise<RoughProxy> {
  const sockets = new Set<net.Socket>();
  const done: RoughProxy['done'] = { passed: 0, 'cut body': 0, 'dropped answer': 0, stalled: 0 };
  const server = net.createServer((client) => {
    const upstream = net.connect(target, '127.0.0.1');
    const fate = random() < 0.5 ? 'passed' : (fates[1 + Math.floor(random() * 3)] ?? 'passed');
    const isOfAnswer = fate === 'dropped answer' || (fate === 'stalled' && random() < 0.5);
    let left = fate === 'passed' ? Infinity : Math.floor(random() * (isOfAnswer ? answerBytes : bodyBytes));
    done[fate] += 1;
    const destroy = (): void => {
      client.destroy();
      upstream.destroy();
    };
    let isStalled = false;
    const forward = (from: net.Socket, to: net.Socket, isCounted: boolean): void => {
      sockets.add(from);
      from.on('data', (bytes) => {
        if (isStalled) return;
        if (isCounted) left -= bytes.length;
        if (left >= 0) to.write(bytes);
        else if (fate === 'stalled') isStalled = true;
        else to.write(bytes.subarray(0, bytes.length + left), destroy);
      });
      from.on('end', () => isStalled || to.end());
      from.on('error', destroy);
      from.on('close', () => {
        sockets.delete(from);
        destroy();
      });
    };
    forward(client, upstream, !isOfAnswer);
    forward(upstream, client, isOfAnswer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return { port: (server.address() as net.AddressInfo).port, done };
}
