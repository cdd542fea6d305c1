import { existsSync, readdirSync } from 'node:fs';

/**
 * The staged entries of runs and uploads in a directory, without the kept files, which have their own limits.
 */
export function stagedIn(directory: string): string[] {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  return names.filter((name) => !/^content(-\d+)?$/.test(name));
}
