/*
 * The errors of system calls, as Node.js reports them.
 */

/** The code of a system error, such as `ENOENT`; undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

const networkErrors: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'the host name was not found',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'no answer in time',
};

/** `connection refused (127.0.0.1:6379)` for a network error, and the message of any other error. */
export function describeNetworkError(error: Error): string {
  const known = networkErrors[errnoOf(error) ?? ''];
  if (known === undefined) return error.message;
  const address = /\S+:\d+$/.exec(error.message)?.[0];
  return address === undefined ? known : `${known} (${address})`;
}

/** Whether the name does not exist, or a file is in the place of one of its directories. */
export function isAbsent(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

/** The result of `work`; undefined if it fails because there is no such file. Throws its other errors. */
export function undefinedIfAbsent<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
