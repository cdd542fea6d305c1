import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { threadId } from 'node:worker_threads';
import type { Holder } from '../catalog.ts';

/*
 * Identifies the holder of a lease by process and thread, and detects dead holders on this host.
 */

/** Instance ids of this thread's active holders. Any other holder of this thread is dead. */
const active = new Set<string>();

/** Read only once, because it is constant for the life of the thread. */
let ownIdentity: Pick<Holder, 'bootId' | 'process' | 'thread'> | undefined;

/**
 * Creates a holder for this process and thread, which is active until `retire` is called. Two attempts in one
 * process are two holders.
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

/** Marks the holder as dead for this thread. */
export function retire(holder: Holder): void {
  active.delete(holder.instanceId);
}

/**
 * Returns true only if the holder is certainly dead. It must have run on this host, in this boot and pid
 * namespace. In addition, its pid must be free or belong to another process, or its thread must have ended (a
 * daemon outlives its worker threads), or it must have belonged to this thread and been retired. Returns
 * false if this is unknown.
 */
export function isKnownDead(holder: Holder): boolean {
  if (holder.host !== hostname() || holder.bootId === null || holder.bootId !== bootId()) return false;
  const [namespace] = holder.process?.split(' ') ?? [];
  const [own] = processIdentity(process.pid)?.split(' ') ?? [];
  if (namespace === undefined || namespace !== own) return false;
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
 * Returns a text like `pid:[4026531836] 1234567`: the pid namespace of this process and the start time of
 * process `pid` in it. Returns null if there is no such process.
 */
function processIdentity(pid: number): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    return startTime === null ? null : `${readlinkSync('/proc/self/ns/pid')} ${startTime}`;
  });
}

/**
 * Returns the `threadIdentity` of this thread. The call must be synchronous, because an asynchronous one
 * would read the link on a pool thread.
 */
function ownThread(): string | null {
  return readOrNull(() => {
    const [, tid] = /^\d+\/task\/(\d+)$/.exec(readlinkSync('/proc/thread-self')) ?? [];
    return tid === undefined ? null : threadIdentity(process.pid, tid);
  });
}

/**
 * Returns a text like `1240 1234567`: the system's thread id and the thread's start time, because ids are
 * reused.
 */
function threadIdentity(pid: number, tid: string): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8'));
    return startTime === null ? null : `${tid} ${startTime}`;
  });
}

/** Returns field 22 of proc_pid_stat(5), or null for a zombie. */
export function startTimeIn(stat: string): string | null {
  // The second field, the program's name in parentheses, may contain spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  return state === 'Z' || state === 'X' ? null : (startTime ?? null);
}

function readOrNull(read: () => string | null): string | null {
  try {
    return read();
  } catch {
    return null; // There is no /proc (not Linux) or no such process.
  }
}
