import { existsSync, readdirSync } from 'node:fs';

/**
 * What is staged in a directory for runs and uploads: without the files that are kept by digest, so that
 * producers need not send them again, which have bounds of their own.
 */
export function stagedIn(directory: string): string[] {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  return names.filter((name) => !/^content(-\d+)?$/.test(name));
}
