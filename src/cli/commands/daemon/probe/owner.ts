import { statSync } from 'node:fs';
import { userName } from '../../../../core/lib/unsafe-path.ts';

/** `belongs to www-data (mode 0755)`, of a file or directory that exists. Throws the system's error. */
export function describeOwner(place: string): string {
  const { uid, mode } = statSync(place);
  return `belongs to ${userName(uid) ?? `user ${uid}`} (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`;
}
