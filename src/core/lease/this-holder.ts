import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { threadId } from 'node:worker_threads';
import type { Holder } from '../catalog/catalog.ts';

/**
 * The holders of this thread that are at work. What is in no lock of theirs any more, this thread knows to be
 * dead.
 */
const atWork = new Set<string>();

/** Asked once: none of it changes while the thread lives. */
let ownIdentity: Pick<Holder, 'bootId' | 'process' | 'thread'> | undefined;

/**
 * A new holder of this process and thread, at work until `retire` is called. Two attempts of one process are
 * two holders.
 */
export function newHolder(): Holder {
  const instanceId = `${threadId}-${randomUUID()}`;
  atWork.add(instanceId);
  return {
    host: hostname(),
    pid: process.pid,
    ...(ownIdentity ??= { bootId: bootId(), process: processIdentity(process.pid), thread: ownThread() }),
    instanceId,
  };
}

export function retire(holder: Holder): void {
  atWork.delete(holder.instanceId);
}

/**
 * True only where it is certain that nobody is behind the holder any more: it ran on this host, in this boot
 * and this pid namespace, and its pid is free or has gone to another process, or the thread it ran on has
 * ended though the process goes on (a daemon outlives its worker threads); or it was this very thread, which
 * knows better. Everything else is "not known to be dead".
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
  return isThisThread && !atWork.has(holder.instanceId);
}

function bootId(): string | null {
  return readOrNull(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
}

/** `pid:[4026531836] 1234567`: the pid namespace of this process, and the start time of `pid` in it. */
function processIdentity(pid: number): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(`/proc/${pid}/stat`);
    return startTime === null ? null : `${readlinkSync('/proc/self/ns/pid')} ${startTime}`;
  });
}

/**
 * This thread, as `threadIdentity` tells it. The link is read by the thread that asks, because the call is
 * synchronous.
 */
function ownThread(): string | null {
  return readOrNull(() => {
    const [, tid] = /^\d+\/task\/(\d+)$/.exec(readlinkSync('/proc/thread-self')) ?? [];
    return tid === undefined ? null : threadIdentity(process.pid, tid);
  });
}

/** `1240 1234567`: the id that the system gave a thread, and its start time, since ids are given again. */
function threadIdentity(pid: number, tid: string): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(`/proc/${pid}/task/${tid}/stat`);
    return startTime === null ? null : `${tid} ${startTime}`;
  });
}

/** Field 22 of proc_pid_stat(5); null for what has ended and only waits to be noticed. */
function startTimeIn(file: string): string | null {
  const stat = readFileSync(file, 'utf8');
  // The second field is the program's name in parentheses and may hold anything, spaces and parentheses too.
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
