import { accessSync, constants, lstatSync, readFileSync, readlinkSync, type Stats, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';

/** Why another user could change a file or directory, or exchange it for another one. */
export interface Weakness {
  /** The entry at fault: the path itself, or a directory or link that leads to it. */
  path: string;
  /** `owner`: an untrusted user owns it. `everyone` and `group`: they may write to it. */
  kind: 'owner' | 'everyone' | 'group';
  /** `can be written by every user (mode 0777)`. */
  found: string;
  /** The command that removes the weakness. */
  remedy: string;
}

const maxLinks = 40;

/**
 * Looks at a path and at the directories and links that lead to it, as far as they exist, and returns the
 * first weakness of each kind. It is the rule of OpenSSH's `StrictModes`, with three exceptions:
 *
 * - A sticky directory such as `/tmp` may lead to the path: only the owner of an entry can rename or remove
 *   it there.
 * - A group without other members may write (`groupIsPrivate`): umask 002 with a group for each user is
 *   usual.
 * - A file system that is mounted read-only is safe, such as the mounted secrets of Kubernetes.
 *
 * Trusted owners are root, the user of this process, the user who called sudo, and the owner of `/`, since
 * root of the machine is user 65534 in a user namespace. Parts that cannot be looked at have no weakness.
 *
 * @param sudoUser The value of SUDO_UID, which counts for root only.
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
      // The mode of any other directory decides who can replace the link.
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

/** null on a system without users. */
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
 * The users and groups of this machine by `/etc/passwd` and `/etc/group`. Node.js has no call for them. A
 * directory service such as LDAP is not asked.
 */

/** The user of this process. A container may run as a number without a name, which gives `user 1000`. */
export function currentUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.geteuid?.() ?? 'unknown'}`;
  }
}

/** undefined if the user has no name. */
export function userName(uid: number): string | undefined {
  return recordsOf('/etc/passwd').find(([, , id]) => id === String(uid))?.[0];
}

/** undefined if the group has no name. */
function groupName(gid: number): string | undefined {
  return recordsOf('/etc/group').find(([, , id]) => id === String(gid))?.[0];
}

/**
 * Whether no other user than these is a member of a group, as in the group that Debian and Red Hat make for
 * each user. False for a group that `/etc/group` lacks if a directory service may know it.
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

/** Whether every group is in `/etc/group`, or is made up by systemd or the C library from it. */
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
