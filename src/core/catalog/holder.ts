import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Holder } from './catalog.ts';

/** Who this process is, for leases. Each call is a holder of its own: two attempts of one process are two. */
export function currentHolder(): Holder {
  return {
    host: hostname(),
    pid: process.pid,
    bootId: bootId(),
    process: processIdentity(process.pid),
    instanceId: randomUUID(),
  };
}

/**
 * True only where it is certain that the holder's process has ended: it ran on this host, in this boot and this pid namespace, and its pid is
 * free or has gone to another process. Everything else is "not known to be dead".
 */
export function isKnownDead(holder: Holder): boolean {
  if (holder.host !== hostname() || holder.bootId === null || holder.bootId !== bootId()) return false;
  const [namespace] = holder.process?.split(' ') ?? [];
  const [ours] = processIdentity(process.pid)?.split(' ') ?? [];
  if (namespace === undefined || namespace !== ours) return false;
  return processIdentity(holder.pid) !== holder.process;
}

function bootId(): string | null {
  return readOrNull(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
}

/** `pid:[4026531836] 1234567`: the pid namespace of this process, and the start time of `pid` in it (proc_pid_stat(5), field 22). */
function processIdentity(pid: number): string | null {
  return readOrNull(() => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name in parentheses and may hold anything, spaces and parentheses too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTime] = [fields[0], fields[19]];
    if (state === 'Z' || state === 'X') return null;
    return `${readlinkSync('/proc/self/ns/pid')} ${startTime}`;
  });
}

function readOrNull(read: () => string | null): string | null {
  try {
    return read();
  } catch {
    return null; // No /proc: not Linux, or no such process.
  }
}
