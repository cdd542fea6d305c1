import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import net from 'node:net';

const lowest = 10_000;

/**
 * A free loopback port outside the system's ephemeral range. It is still free when a server restarts,
 * whatever connections were opened meanwhile.
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

/** The first ephemeral port of the system. */
function firstGiven(): number {
  try {
    const [first = ''] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/);
    return Number(first) > lowest + 1000 ? Number(first) : 32_768;
  } catch {
    return 32_768;
  }
}
