/*
 * The errors of system calls, as Node.js reports them.
 */

/** The code of a system error, such as `ENOENT`; undefined for any other error. Pure. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Whether the name does not exist, or a file is in the place of one of its directories. */
export function isAbsent(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

/** The result of `work`; undefined if it fails because there is no such file. Throws its other errors. */
export function unlessAbsent<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
