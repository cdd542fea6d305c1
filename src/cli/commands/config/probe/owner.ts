import { readFileSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';

/** `belongs to www-data (mode 0755)`, of a file or directory that exists. Throws the system's error. */
export function describeOwner(place: string): string {
  const { uid, mode } = statSync(place);
  return `belongs to ${nameOf(uid)} (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`;
}

/** Who tries: what others may do is another question. */
export function whoTries(): string {
  try {
    return userInfo().username;
  } catch {
    return nameOf(process.geteuid?.() ?? -1); // A container may run as a number that nobody has.
  }
}

function nameOf(uid: number): string {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
    const found = lines.map((line) => line.split(':')).find(([, , id]) => id === String(uid));
    return found?.[0] ?? `user ${uid}`;
  } catch {
    return `user ${uid}`;
  }
}
