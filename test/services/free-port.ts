import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import net from 'node:net';

const lowest = 10_000;

/**
 * A free loopback port outside the system's ephemeral range: a server that restarts finds it free, whatever
 * connections are opened meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.floor(Math.random() * (firstGiven() - lowest));
    const server = net.createServer().listen(port, '127.0.0.1');
    const isFree = await Promise.race([
      once(server, 'listening').then(() => true),
      once(server, 'error').then(() => false),
    ]).catch(() => false);
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** The first port that connections and listeners without a wish of their own are given. */
function firstGiven(): number {
  try {
    const [first = ''] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/);
    return Number(first) > lowest + 1000 ? Number(first) : 32_768;
  } catch {
    return 32_768;
  }
}
