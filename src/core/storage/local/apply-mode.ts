import { chmodSync, fchmodSync, statSync } from 'node:fs';
import { errnoOf } from './errors.ts';

/** Of FAT, CIFS and some FUSE file systems, which have no modes, and of files of another user. */
const refusals = new Set(['EPERM', 'EACCES', 'EROFS', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL']);

/**
 * Gives an open file, or the file or directory at a path that another user cannot exchange, exactly this
 * mode; the umask and access lists may have taken rights away when it was made. A directory keeps its setgid
 * and sticky bits. Returns false if the file system or the owner does not allow it.
 */
export function applyMode(target: string | number, mode: number): boolean {
  try {
    if (typeof target === 'number') fchmodSync(target, mode);
    else {
      const before = statSync(target);
      const wanted = before.isDirectory() ? mode | (before.mode & 0o3000) : mode;
      if ((before.mode & 0o7777) !== wanted) chmodSync(target, wanted);
    }
    return true;
  } catch (error) {
    if (refusals.has(errnoOf(error) ?? '')) return false;
    throw error;
  }
}
