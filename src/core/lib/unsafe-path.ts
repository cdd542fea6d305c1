import { accessSync, constants, lstatSync, readFileSync, readlinkSync, type Stats, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';

/** Why another user could change a file or directory, or replace it with another one. */
export interface Weakness {
  /** The entry at fault: the path itself, or a directory or link that leads to it. */
  path: string;
  /** `owner` means that an untrusted user owns it. `everyone` and `group` mean that they can write to it. */
  kind: 'owner' | 'everyone' | 'group';
  /** A predicate such as `can be written by every user (mode 0777)`. */
  found: string;
  /** The command that fixes the weakness. */
  remedy: string;
}

const maxLinks = 40;

/**
 * Inspects a path and the directories and links that lead to it, as far as they exist, and returns the first
 * weakness of each kind. Follows the rule of OpenSSH's `StrictModes`, with three exceptions:
 *
 * - A sticky directory such as `/tmp` may lead to the path, because only an entry's owner can rename or
 *   remove it there.
 * - A group without other members may have write access (`groupIsPrivate`), because umask 002 with one group
 *   per user is common.
 * - A file system that is mounted read-only is safe, such as mounted Kubernetes secrets.
 *
 * Trusted owners are root, the user of this process, the user who called sudo, and the owner of `/`, because
 * the machine's root is user 65534 in a user namespace. Components that cannot be inspected are not reported.
 *
 * @param sudoUser The value of SUDO_UID, which is used only if this process runs as root.
 */
export function weaknessesOf(target: string, sudoUser?: string): Weakness[] {
  const owners = trustedOwners(sudoUser);
  if (owners === null) return [];
  const found = new Map<Weakness['kind'], Weakness>();
  const steps = path.resolve(target).split('/');
  let [current, links, isSticky] = ['/', 0, false];
  for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
    const entry = path.join(current, step);
    const stats = lstatIfPossible(entry);
    if (stats === null || links > maxLinks) break;
    if (stats.isSymbolicLink()) {
      links += 1;
      // In a directory that is not sticky, the directory's mode determines who can replace the link.
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

/** Returns the trusted owners, or null on a system without users. */
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
    remedy: `${user === 0 ? '' : 'sudo '}chown ${userName(user) ?? user} ${quoted(entry)}`,
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
    remedy: `${sudo}chmod ${isForEveryone ? 'go-w' : 'g-w'} ${quoted(entry)}`,
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

/** Quotes text for a shell. */
function quoted(entry: string): string {
  return /^[\w@%+=:,./-]+$/.test(entry) ? entry : `'${entry.replaceAll("'", String.raw`'\''`)}'`;
}

/*
 * Reads this machine's users and groups from `/etc/passwd` and `/etc/group`, because Node.js has no call for
 * them. Directory services such as LDAP are not queried.
 */

/**
 * Returns the name of this process's user, or a text like `user 1000` if a container runs as a user without a
 * name.
 */
export function currentUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.geteuid?.() ?? 'unknown'}`;
  }
}

/** Returns undefined if the user has no name. */
export function userName(uid: number): string | undefined {
  return recordsOf('/etc/passwd').find(([, , id]) => id === String(uid))?.[0];
}

/** Returns undefined if the group has no name. */
function groupName(gid: number): string | undefined {
  return recordsOf('/etc/group').find(([, , id]) => id === String(gid))?.[0];
}

/**
 * Returns true if a group has no members other than these users, like the group that Debian and Red Hat
 * create for each user. Returns false for a group that is not in `/etc/group` if a directory service may know
 * it.
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

/** Returns true if every group is in `/etc/group` or is synthesized from it by systemd or the C library. */
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
