import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { ensureInstalled, MissingService } from '../services/debian.ts';

const run = promisify(execFile);

/** A separate host: a network namespace with one connection to this machine, and no others. */
export interface Host {
  name: string;
  /** Address of the host. */
  address: string;
  /** The command prefix that runs a command on the host. */
  through: string[];
  /** Cuts and restores the connection. */
  unplug(): Promise<void>;
  plug(): Promise<void>;
}

export interface Network {
  /** The address of this machine, which has the services. Every host can reach it. */
  address: string;
  hosts: Host[];
}

/**
 * Hosts as network namespaces. They and their connections are removed after the test. Throws with the reason
 * if this machine does not support them.
 */
export async function startNetwork(t: Pick<Test, 'teardown'>, names: readonly string[]): Promise<Network> {
  await ensureInstalled('network', 'namespaces');
  const net = await freeNet();
  const id = `wb${process.pid.toString(36)}`;
  const hosts: Host[] = [];
  let first = '';
  for (const [index, name] of names.entries()) {
    const [space, near, far] = [`${id}${name}`, `${id}${name}0`, `${id}${name}1`];
    const [here, there] = [`198.19.${net * 4 + index}.1`, `198.19.${net * 4 + index}.2`];
    await ip('netns', 'add', space).catch(impossible);
    t.teardown(async () => {
      await ip('netns', 'del', space);
    });
    // Not `ip netns exec`: it remounts `/`, which fails in a chroot whose directory is not a mount point.
    const enter = [`--net=/run/netns/${space}`, '--'];
    const inside = (...args: string[]): Promise<unknown> => run('nsenter', [...enter, 'ip', ...args]);
    await ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', space).catch(impossible);
    await ip('addr', 'add', `${here}/24`, 'dev', near);
    await ip('link', 'set', near, 'up');
    await inside('addr', 'add', `${there}/24`, 'dev', far);
    await inside('link', 'set', far, 'up');
    await inside('link', 'set', 'lo', 'up');
    await inside('route', 'add', 'default', 'via', here);
    first ||= here;
    hosts.push({
      name,
      address: there,
      through: ['nsenter', ...enter],
      unplug: () => ip('link', 'set', near, 'down'),
      plug: () => ip('link', 'set', near, 'up'),
    });
  }
  return { address: first, hosts };
}

async function ip(...args: string[]): Promise<void> {
  await run('ip', args);
}

/**
 * An unused network in the RFC 2544 benchmark range: `n` selects the addresses 198.19.4n.0 to
 * 198.19.4n+3.255.
 */
async function freeNet(): Promise<number> {
  const { stdout } = await run('ip', ['-o', '-4', 'address']);
  const used = [...stdout.matchAll(/ 198\.19\.(\d+)\./g)].map(([, third]) => Math.floor(Number(third) / 4));
  const free = Array.from({ length: 64 }, (_, net) => net).filter((net) => !used.includes(net));
  if (free.length === 0) throw new Error('all nets of 198.19.0.0/16 are in use');
  return free[randomInt(0, free.length)] as number;
}

function impossible(cause: unknown): never {
  throw new MissingService(
    'this machine allows no network namespaces; run as root, in a container with --cap-add NET_ADMIN --cap-add SYS_ADMIN',
    { cause },
  );
}
