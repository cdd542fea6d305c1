import type { ErrorCode } from '../lib/error-codes.ts';
import { errorMessage, WaybillError } from '../lib/errors.ts';
import { errnoOf } from '../lib/system-errors.ts';
import type { Key } from './key.ts';
import type { Labelled } from './untrusted.ts';

/** The errors that several drivers have in common, so that the wording is the same everywhere. */

export function notFound(storage: Labelled, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_not_found', `${storage.label}: "${key}" does not exist`, { cause });
}

export function alreadyExists(storage: Labelled, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_exists', `${storage.label}: "${key}" already exists`, { cause });
}

export function versionConflict(storage: Labelled, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_conflict', `${storage.label}: "${key}" was changed by another program`, {
    cause,
  });
}

export function readOnly(storage: Labelled, key: string): WaybillError {
  return new WaybillError(
    'storage_denied',
    `${storage.label} was opened read-only, so "${key}" cannot be changed`,
  );
}

/** `storage_permanent`: a file cannot be put back, because it was not kept. */
export function notKept(storage: Labelled, key: string): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: "${key}" was not kept, so it cannot be restored`,
  );
}

/** `storage_permanent`: the storage is not able to replace symbolic links in a single step. */
export function noLinks(storage: Labelled, cause?: unknown): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: symbolic links cannot be replaced there in one step`,
    { hint: 'releases need that: set layout: in_place for this destination', cause },
  );
}

/**
 * `storage_permanent`: a directory cannot be created, because there is a file or a symbolic link in its
 * place.
 */
export function notADirectory(
  storage: Labelled,
  directory: Key | '',
  { isLink }: { isLink: boolean },
): WaybillError {
  const what = directory === '' ? storage.label : `${storage.label}: "${directory}"`;
  return new WaybillError('storage_permanent', `${what} is not a directory`, {
    hint: isLink
      ? 'it is a symbolic link, which waybill does not follow below a root; replace it with a directory, or configure its target as a path'
      : 'move it away, or publish to another path',
  });
}

/** `storage_permanent`: a file cannot be moved to this key in a single step. */
export function otherFileSystem(storage: Labelled, key: string): WaybillError {
  return new WaybillError('storage_permanent', `${storage.label}: "${key}" is on another file system`, {
    hint: 'something is mounted there, and files cannot be moved to it in one step; unmount it, or make it a destination of its own',
  });
}

/** `storage_full`: there is not enough space for the `bytes` or `files` to be written. */
export function noRoom(
  storage: Labelled,
  need: ({ bytes: number } | { files: number }) & { free: number },
): WaybillError {
  const what = 'bytes' in need ? `${need.bytes} bytes` : `${need.files} files`;
  return new WaybillError(
    'storage_full',
    `${storage.label}: ${what} are needed, but only ${need.free} are free`,
    { hint: 'free some space and run again; nothing was changed' },
  );
}

/** `storage_permanent`: an object's key is longer than S3 allows. */
export function keyTooLong(storage: Labelled, key: string, maxBytes: number): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: "${key}" is too long: with the prefix it has more than ${maxBytes} bytes`,
    { hint: 'give the file a shorter path, or the destination a shorter prefix' },
  );
}

const letIn = 'give the user that runs waybill access to it, and to the directories above it';
const mountHint = 'check the disk, and the server of a mounted file system';

/** Maps the codes of system errors to our own. All others become `storage_permanent`. */
const systemErrors: Record<string, { code: ErrorCode; hint?: string }> = {
  ENOENT: { code: 'storage_not_found' },
  EACCES: { code: 'storage_denied', hint: letIn },
  EPERM: { code: 'storage_denied', hint: letIn },
  EXDEV: {
    code: 'storage_permanent',
    hint: 'another file system is mounted below the destination, and files cannot be moved to it in one step; make it a destination of its own, or unmount it',
  },
  ENAMETOOLONG: {
    code: 'storage_permanent',
    hint: 'the file system does not accept this name or path; give the file, or the destination, a shorter one',
  },
  EROFS: { code: 'storage_denied', hint: 'the file system is mounted read-only' },
  ENOSPC: { code: 'storage_full', hint: 'free some space and run again; nothing was lost' },
  EDQUOT: {
    code: 'storage_full',
    hint: 'raise the quota or free some space and run again; nothing was lost',
  },
  EFBIG: {
    code: 'storage_permanent',
    hint: 'the file system or a limit does not allow files of this size',
  },
  EAGAIN: { code: 'storage_transient' },
  EBUSY: { code: 'storage_transient' },
  EINTR: { code: 'storage_transient' },
  EMFILE: { code: 'storage_transient', hint: 'raise the limit on open files (ulimit -n)' },
  ENFILE: { code: 'storage_transient' },
  ETIMEDOUT: { code: 'storage_transient' },
  ESTALE: { code: 'storage_transient' },
  // This is what a mounted network file system reports when its server is unreachable.
  EIO: { code: 'storage_transient', hint: mountHint },
  ENODEV: { code: 'storage_transient', hint: mountHint },
  ENOTCONN: { code: 'storage_transient', hint: mountHint },
  EHOSTDOWN: { code: 'storage_transient', hint: mountHint },
  EHOSTUNREACH: { code: 'storage_transient', hint: mountHint },
  ENETUNREACH: { code: 'storage_transient', hint: mountHint },
};

/**
 * Converts a system error to a `WaybillError` with one of the codes `storage_not_found`, `storage_denied`,
 * `storage_full`, `storage_transient`, and `storage_permanent`. If it already is a `WaybillError`, it is
 * returned unchanged. Without a storage, `key` is an absolute path. For the root of the storage, it is empty.
 */
export function localFailure(storage: Labelled | null, key: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  const errno = errnoOf(error);
  const { code, hint } = (errno !== undefined ? systemErrors[errno] : undefined) ?? {
    code: 'storage_permanent' as const,
    hint: undefined,
  };
  const place = [storage?.label, key === '' ? undefined : `"${key}"`].filter((part) => part !== undefined);
  const message = [...place, describeSystemError(error)].join(': ');
  return new WaybillError(code, message, { cause: error, hint });
}

/**
 * Formats a system error, for example as `ENOSPC: no space left on device`. The absolute path and the name of
 * the system call, which Node.js puts at the end, are left out.
 */
export function describeSystemError(error: unknown): string {
  if (['EACCES', 'EPERM'].includes(errnoOf(error) ?? '')) return 'permission denied';
  const message = errorMessage(error);
  return message.split(', ')[0] ?? message;
}
