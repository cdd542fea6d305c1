import { once } from 'node:events';
import net from 'node:net';
import type { Test } from 'tap';

/**
 * A TCP proxy that simulates a server on another continent: it forwards data after half of the round-trip
 * time, in order, in the same chunks.
 */
export interface DelayingProxy {
  port: number;
  /** The number of connections so far. */
  connections(): number;
  /** Open connections. */
  open(): number;
  /** Cuts connection number `index`, from 0, once it has received `bytes` bytes. */
  cutAfter(index: number, bytes: number): void;
  /** Cuts that connection now, with the data in flight. */
  cut(index: number): void;
  /**
   * From now on, new connections are forwarded to that local port. If null, they are accepted, but get no
   * data.
   */
  forwardTo(port: number | null): void;
  /** From now on, a new connection is cut immediately if more than `count` are open already. */
  allow(count: number): void;
}

export async function startDelayingProxy(
  t: Pick<Test, 'teardown'>,
  target: number,
  roundTripMs: number,
): Promise<DelayingProxy> {
  const pairs = new Map<number, () => void>();
  const cuts = new Map<number, number>();
  let made = 0;
  let allowed = Infinity;
  let leadsTo: number | null = target;
  const server = net.createServer({ noDelay: true }, (client) => {
    const index = made;
    made += 1;
    if (pairs.size >= allowed) {
      client.destroy();
      return;
    }
    if (leadsTo === null) {
      pairs.set(index, () => client.destroy());
      client.on('error', () => undefined).on('close', () => pairs.delete(index));
      // Otherwise, its end would not be detected.
      client.resume();
      return;
    }
    const upstream = net.connect({ port: leadsTo, host: '127.0.0.1', noDelay: true });
    const destroy = (): void => {
      pairs.delete(index);
      client.destroy();
      upstream.destroy();
    };
    pairs.set(index, destroy);
    let sent = 0;
    const counted = (bytes: number): boolean => (sent += bytes) > (cuts.get(index) ?? Infinity);
    forward(client, upstream, roundTripMs / 2, destroy, counted);
    forward(upstream, client, roundTripMs / 2, destroy, () => false);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const destroy of [...pairs.values()]) destroy();
    server.close();
    await once(server, 'close');
  });
  return {
    port: (server.address() as net.AddressInfo).port,
    connections: () => made,
    open: () => pairs.size,
    cutAfter: (index, bytes) => void cuts.set(index, bytes),
    cut: (index) => pairs.get(index)?.(),
    forwardTo(port) {
      leadsTo = port;
    },
    allow(count) {
      allowed = count;
    },
  };
}

/** Forwards each piece `ms` milliseconds after it arrived. One timer serves all waiting pieces. */
function forward(
  from: net.Socket,
  to: net.Socket,
  ms: number,
  destroy: () => void,
  isCutAfter: (bytes: number) => boolean,
): void {
  const waiting: { due: number; bytes: Buffer | null }[] = [];
  let timer: NodeJS.Timeout | undefined;
  const pass = (): void => {
    timer = undefined;
    to.cork();
    while (waiting.length > 0 && waiting[0]!.due <= performance.now()) {
      const { bytes } = waiting.shift()!;
      if (bytes === null) to.end();
      else to.write(bytes);
    }
    to.uncork();
    if (waiting.length > 0) timer = setTimeout(pass, waiting[0]!.due - performance.now());
  };
  const later = (bytes: Buffer | null): void => {
    waiting.push({ due: performance.now() + ms, bytes });
    timer ??= setTimeout(pass, ms);
  };
  from.on('data', (bytes: Buffer) => {
    if (isCutAfter(bytes.length)) destroy();
    else later(bytes);
  });
  from.on('end', () => later(null));
  from.on('error', destroy);
  from.on('close', () => {
    clearTimeout(timer);
    setTimeout(destroy, ms + 10).unref();
  });
}
