import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';

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
export function groupName(gid: number): string | undefined {
  return recordsOf('/etc/group').find(([, , id]) => id === String(gid))?.[0];
}

/**
 * Whether no other user than these is a member of a group, as in the group that Debian and Red Hat make for
 * each user. False for a group that `/etc/group` lacks if a directory service may know it.
 */
export function groupIsPrivate(gid: number, uids: ReadonlySet<number>): boolean {
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
