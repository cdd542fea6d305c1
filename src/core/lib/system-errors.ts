import { errorMessage } from './errors.ts';

/*
 * Makes sense of the errors that Node.js throws when a system call fails.
 */

/** Returns the code of a system error, such as `ENOENT`. Returns undefined for any other kind of error. */
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

/**
 * Describes a network error, as in `connection refused (127.0.0.1:6379)`. For any other error, returns its
 * message.
 */
export function describeNetworkError(error: Error): string {
  const known = networkErrors[errnoOf(error) ?? ''];
  if (known === undefined) return error.message;
  const address = /\S+:\d+$/.exec(error.message)?.[0];
  return address === undefined ? known : `${known} (${address})`;
}

const fileErrors: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
  ELOOP: 'there are too many symbolic links',
  ENAMETOOLONG: 'the name is too long',
  ENOENT: 'the file does not exist',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of the path is not a directory',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
};

/** Returns why a file cannot be read, such as `the file does not exist`. */
export function describeFileError(error: unknown): string {
  return fileErrors[errnoOf(error) ?? ''] ?? errorMessage(error);
}

/** Returns why a file cannot be written, such as `its directory does not exist`. */
export function describeWriteError(error: unknown): string {
  return errnoOf(error) === 'ENOENT' ? 'its directory does not exist' : describeFileError(error);
}

/** Returns true if the name does not exist, or one of its parent directories is actually a file. */
export function isAbsent(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

/**
 * Returns the result of `work`, or undefined if the file it needs does not exist. Any other error is thrown.
 */
export function undefinedIfAbsent<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
