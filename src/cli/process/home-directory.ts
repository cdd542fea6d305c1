import { homedir } from 'node:os';

/**
 * Returns the user's home directory. In a container or a service, the user may have no entry and no HOME; the
 * home directory is then `/`, as Docker sets it.
 */
export function homeDirectory(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}
