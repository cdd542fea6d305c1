import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { threadId } from 'node:worker_threads';
import type { Holder } from '../catalog/catalog.ts';

/** Instance ids of this thread's active holders. A holder of this thread that is not among them is dead. */
const active = new Set<string>();

/** Read once: it does not change during the life of the thread. */
let ownIdentity: Pick<Holder, 'bootId' | 'process' | 'thread'> | undefined;

/**
 * A new holder of this process and thread, active until `retire` is called. Two attempts in one process are
 * two holders.
 */
export function newHolder(): Holder {
  const instanceId = `${threadId}-${randomUUID()}`;
  active.add(instanceId);
  return {
    host: hostname(),
    pid: process.pid,
    ...(ownIdentity ??= { bootId: bootId(), process: processIdentity(process.pid), thread: ownThread() }),
    instanceId,
  };
}

/** From now on this thread knows the holder to be dead. */
export function retire(holder: Holder): void {
  active.delete(holder.instanceId);
}

/**
 * True only if the holder is certainly dead. It ran on this host, in this boot and this pid namespace, and
 * one of these holds: its pid is free or belongs to another process; its thread has ended, though the process
 * goes on (a daemon outlives its worker threads); it belonged to this very thread and was retired. Any other
 * holder is "not known to be dead".
 */
export function isKnownDead(holder: Holder): boolean {
  if (holder.host !== hostname() || holder.bootId === null || holder.bootId !== bootId()) return false;
  const [namespace] = holder.process?.split(' ') ?? [];
  const [ours] = processIdentity(process.pid)?.split(' ') ?? [];
  if (namespace === undefined || namespace !== ours) return false;
  if (processIdentity(holder.pid) !== holder.process) return true;
  const [thread] = holder.thread?.split(' ') ?? [];
  if (thread !== undefined && threadIdentity(holder.pid, thread) !== holder.thread) return true;
  const isThisThread = holder.pid === process.pid && holder.instanceId.startsWith(`${threadId}-`);
  return isThisThread && !active.has(holder.instanceId);
}

function bootId(): string | null {
  return readOrNull(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
}

/**
 * `pid:[4026531836] 1234567`: the pid namespace of this process, and the start time of process `pid` in it;
 * null if there is no such process.
 */
function processIdentity(pid: number): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    return startTime === null ? null : `${readlinkSync('/proc/self/ns/pid')} ${startTime}`;
  });
}

/**
 * The `threadIdentity` of this thread. Only a synchronous call reads the link on this thread, and not on one
 * of the pool.
 */
function ownThread(): string | null {
  return readOrNull(() => {
    const [, tid] = /^\d+\/task\/(\d+)$/.exec(readlinkSync('/proc/thread-self')) ?? [];
    return tid === undefined ? null : threadIdentity(process.pid, tid);
  });
}

/** `1240 1234567`: the system's id of the thread, and its start time, because ids are reused. */
function threadIdentity(pid: number, tid: string): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8'));
    return startTime === null ? null : `${tid} ${startTime}`;
  });
}

/** Field 22 of proc_pid_stat(5); null for a zombie. Pure. */
export function startTimeIn(stat: string): string | null {
  // The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  return state === 'Z' || state === 'X' ? null : (startTime ?? null);
}

function readOrNull(read: () => string | null): string | null {
  try {
    return read();
  } catch {
    return null; // No /proc: not Linux, or no such process.
  }
}
