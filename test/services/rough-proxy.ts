import { once } from 'node:events';
import net from 'node:net';
import type { Test } from 'tap';

/** A TCP proxy that treats each connection as a bad line would, by numbers that the caller draws. */
export interface RoughProxy {
  port: number;
  /** Connections by the applied fault. */
  done: Record<Fate, number>;
}

const fates = ['passed', 'cut body', 'dropped answer', 'stalled'] as const;
export type Fate = (typeof fates)[number];

/** Bytes from the client, or of the answer, after which a connection is treated so: enough for all of it. */
const bodyBytes = 3000;
const answerBytes = 600;

/**
 * Half of the connections pass; of the others a body is cut somewhere, an answer is dropped when a part of it
 * has come, or nothing passes any more and nothing is closed, until the client leaves.
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
