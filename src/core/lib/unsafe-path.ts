import { accessSync, constants, lstatSync, readFileSync, readlinkSync, type Stats, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import { shellQuoted } from './text.ts';

/** A reason why another user could change or replace a file or directory. */
export interface Weakness {
  /** The entry that is not safe: the path itself, or a directory or link on the way to it. */
  path: string;
  /**
   * `owner` means that it belongs to a user we do not trust, and `everyone` or `group` that they can write to
   * it.
   */
  kind: 'owner' | 'everyone' | 'group';
  /**
   * Says what is wrong, in words that follow the path, such as `can be written by every user (mode 0777)`.
   */
  found: string;
  /** A command that fixes it. */
  remedy: string;
}

const maxLinks = 40;

/**
 * Checks whether other users could change a path, or any directory or link on the way to it, as far as they
 * exist. Returns the first weakness of each kind. The rules are those of `StrictModes` in OpenSSH, with three
 * exceptions:
 *
 * - A sticky directory such as `/tmp` on the way to the path is fine, since only the owner of an entry can
 *   rename or remove it there.
 * - A group may have write access if it has no other members (`groupIsPrivate`). It is common to have umask
 *   002 and a group for each user.
 * - Anything on a file system that is mounted read-only is safe. Secrets in Kubernetes are mounted like that.
 *
 * We trust root, the user of this process, and the user who called sudo. We also trust the owner of `/`,
 * because in a user namespace, the root of the machine is user 65534. Anything that cannot be checked is left
 * out.
 *
 * @param sudoUser The value of SUDO_UID. Only used if this process runs as root.
 */
export function findWeaknesses(target: string, sudoUser?: string): Weakness[] {
  const owners = trustedOwners(sudoUser);
  if (owners === null) return [];
  const found = new Map<Weakness['kind'], Weakness>();
  const steps = path.resolve(target).split('/');
  let current = '/';
  let links = 0;
  let isSticky = false;
  for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
    const entry = path.join(current, step);
    const stats = lstatIfPossible(entry);
    if (stats === null || links > maxLinks) break;
    if (stats.isSymbolicLink()) {
      links += 1;
      // Unless the directory is sticky, the mode of the directory decides who can replace the link.
      if (isSticky && !owners.has(stats.uid)) add(weakOwner(entry, stats));
      const destination = readlinkSync(entry);
      if (path.isAbsolute(destination)) current = '/';
      steps.unshift(...destination.split('/'));
      continue;
    }
    current = entry;
    isSticky = stats.isDirectory() && (stats.mode & 0o1000) !== 0;
    if (!owners.has(stats.uid)) add(weakOwner(entry, stats));
    const hasFurtherSteps = steps.some((each) => each !== '' && each !== '.');
    if (!isSticky || !hasFurtherSteps) add(weakMode(entry, stats, owners));
  }
  return [...found.values()];

  function add(weakness: Weakness | null): void {
    if (weakness !== null && !found.has(weakness.kind)) found.set(weakness.kind, weakness);
  }
}

/** Returns the owners that we trust, or null on a system that has no users. */
function trustedOwners(sudoUser = '0'): ReadonlySet<number> | null {
  const user = process.geteuid?.();
  if (user === undefined) return null;
  return new Set([0, user, user === 0 ? Number(sudoUser) : 0, statSync('/').uid]);
}

function weakOwner(entry: string, { uid }: Stats): Weakness {
  const user = process.geteuid?.() ?? 0;
  return {
    path: entry,
    kind: 'owner',
    found: `belongs to ${userName(uid) ?? `user ${uid}`}, and waybill runs as ${userName(user) ?? `user ${user}`}`,
    remedy: `${user === 0 ? '' : 'sudo '}chown ${userName(user) ?? user} ${shellQuoted(entry)}`,
  };
}

function weakMode(entry: string, { mode, uid, gid }: Stats, owners: ReadonlySet<number>): Weakness | null {
  const isForEveryone = (mode & 0o002) !== 0;
  if (!isForEveryone && ((mode & 0o020) === 0 || groupIsPrivate(gid, new Set([...owners, uid])))) return null;
  if (isReadOnly(entry)) return null;
  const rights = (mode & 0o7777).toString(8).padStart(4, '0');
  const writer = isForEveryone ? 'every user' : `the group ${groupName(gid) ?? gid}`;
  const sudo = [0, uid].includes(process.geteuid?.() ?? 0) ? '' : 'sudo ';
  return {
    path: entry,
    kind: isForEveryone ? 'everyone' : 'group',
    found: `can be written by ${writer} (mode ${rights})`,
    remedy: `${sudo}chmod ${isForEveryone ? 'go-w' : 'g-w'} ${shellQuoted(entry)}`,
  };
}

function isReadOnly(entry: string): boolean {
  try {
    accessSync(entry, constants.W_OK);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EROFS';
  }
}

function lstatIfPossible(entry: string): Stats | null {
  try {
    return lstatSync(entry);
  } catch {
    return null;
  }
}

/*
 * Looks up users and groups in `/etc/passwd` and `/etc/group`, since Node.js has no function for that. Does
 * not query directory services such as LDAP.
 */

/**
 * Returns the name of the user that this process runs as. In a container, there may be none; in that case,
 * returns something like `user 1000`.
 */
export function currentUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.geteuid?.() ?? 'unknown'}`;
  }
}

export function userName(uid: number): string | undefined {
  return recordsOf('/etc/passwd').find(([, , id]) => id === String(uid))?.[0];
}

function groupName(gid: number): string | undefined {
  return recordsOf('/etc/group').find(([, , id]) => id === String(gid))?.[0];
}

/**
 * Reports whether a group has no members except these users. Debian and Red Hat create a group like that for
 * each user. If the group is not in `/etc/group`, but a directory service may know it, returns false.
 */
function groupIsPrivate(gid: number, uids: ReadonlySet<number>): boolean {
  const users = recordsOf('/etc/passwd');
  const group = recordsOf('/etc/group').find(([, , id]) => id === String(gid));
  if (group === undefined && !filesNameAllGroups()) return false;
  const members = (group?.[3] ?? '').split(',').filter((name) => name !== '');
  const isOneOf = (uid: string | undefined): boolean => uid !== undefined && uids.has(Number(uid));
  return (
    users.every(([, , uid, primary]) => primary !== String(gid) || isOneOf(uid)) &&
    members.every((name) => isOneOf(users.find(([user]) => user === name)?.[2]))
  );
}

/** Reports whether every group is in `/etc/group`, or is derived from it by systemd or the C library. */
function filesNameAllGroups(): boolean {
  const line = linesOf('/etc/nsswitch.conf').find((one) => /^\s*group:/.test(one)) ?? 'group: files';
  const services = line
    .replace(/#.*|\[.*?\]/g, '')
    .trim()
    .split(/\s+/)
    .slice(1);
  return services.every((service) => ['files', 'compat', 'systemd'].includes(service));
}

function recordsOf(file: string): string[][] {
  return linesOf(file).map((line) => line.split(':'));
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}
