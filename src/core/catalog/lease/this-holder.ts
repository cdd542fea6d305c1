import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { threadId } from 'node:worker_threads';
import { errnoOf, isAbsent } from '../../lib/system-errors.ts';
import type { Holder } from '../catalog.ts';

/*
 * Identifies the holder of a lease by its process and thread, and finds out whether a holder on this host is
 * dead.
 */

/** The instance ids of this thread's active holders. If another one claims to be this thread, it is dead. */
const active = new Set<string>();

/** Read only once, since it does not change while the thread is running. */
let ownIdentity: Pick<Holder, 'bootId' | 'process' | 'thread'> | undefined;

/**
 * Creates a holder for this process and thread. It counts as active until it is passed to `markDead`. Two
 * attempts in the same process have different holders.
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
export function markDead(holder: Holder): void {
  active.delete(holder.instanceId);
}

/**
 * Reports whether the holder is definitely dead. This only works for a holder on this host, from the current
 * boot and in our pid namespace. It is dead if its pid is unused or belongs to a different process now, if
 * its thread has ended (a daemon outlives its worker threads), or if it was in this thread and has been
 * retired. In all other cases, returns false, for example if its process is hidden.
 */
export function isKnownDead(holder: Holder): boolean {
  if (holder.host !== hostname() || holder.bootId === null || holder.bootId !== bootId()) return false;
  const [namespace] = holder.process?.split(' ') ?? [];
  const [own] = processIdentity(process.pid)?.split(' ') ?? [];
  if (namespace === undefined || namespace !== own) return false;
  const now = identityOf(holder.pid);
  if (now === undefined) return false;
  if (now !== holder.process) return true;
  const [thread] = holder.thread?.split(' ') ?? [];
  if (thread !== undefined) {
    const started = startTimeOf(`/proc/${holder.pid}/task/${thread}/stat`);
    if (started !== undefined && `${thread} ${started}` !== holder.thread) return true;
  }
  const isThisThread = holder.pid === process.pid && holder.instanceId.startsWith(`${threadId}-`);
  return isThisThread && !active.has(holder.instanceId);
}

function bootId(): string | null {
  return readOrNull(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
}

/**
 * Returns a string such as `pid:[4026531836] 1234567`, made up of the pid namespace of this process and the
 * start time of process `pid`. Returns null if there is no such process.
 */
function processIdentity(pid: number): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    return startTime === null ? null : `${readlinkSync('/proc/self/ns/pid')} ${startTime}`;
  });
}

/**
 * Returns the `processIdentity` of another process, or null if there is none. Returns undefined if there is
 * one that cannot be read: `hidepid` and `ProtectProc` hide the processes of other users.
 */
function identityOf(pid: number): string | null | undefined {
  const started = startTimeOf(`/proc/${pid}/stat`);
  if (started === null && isRunning(pid)) return undefined;
  return typeof started === 'string' ? `${readlinkSync('/proc/self/ns/pid')} ${started}` : started;
}

/** Returns null if the file is missing, empty for a zombie, and undefined if it cannot be read now. */
function startTimeOf(file: string): string | null | undefined {
  try {
    return startTimeIn(readFileSync(file, 'utf8')) ?? '';
  } catch (error) {
    return isAbsent(error) || errnoOf(error) === 'ESRCH' ? null : undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errnoOf(error) !== 'ESRCH';
  }
}

/**
 * Returns the `threadIdentity` of this thread. This has to be synchronous, because an asynchronous call would
 * read the link on a thread from the pool.
 */
function ownThread(): string | null {
  return readOrNull(() => {
    const [, tid] = /^\d+\/task\/(\d+)$/.exec(readlinkSync('/proc/thread-self')) ?? [];
    return tid === undefined ? null : threadIdentity(process.pid, tid);
  });
}

/**
 * Returns the system's id of a thread and its start time, such as `1240 1234567`. The id alone is not enough,
 * because ids are reused.
 */
function threadIdentity(pid: number, tid: string): string | null {
  return readOrNull(() => {
    const startTime = startTimeIn(readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8'));
    return startTime === null ? null : `${tid} ${startTime}`;
  });
}

/** Returns field 22 of proc_pid_stat(5), or null for a zombie. */
export function startTimeIn(stat: string): string | null {
  // The second field is the program's name in parentheses. It can contain spaces, and parentheses as well.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const state = fields[0];
  const startTime = fields[19];
  return state === 'Z' || state === 'X' ? null : (startTime ?? null);
}

function readOrNull(read: () => string | null): string | null {
  try {
    return read();
  } catch {
    return null; // Either there is no /proc, because this is not Linux, or there is no such process.
  }
}
