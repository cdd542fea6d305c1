import { WaybillError } from '../../lib/errors.ts';
import type { ErrorCode } from '../../lib/error-codes.ts';
import { parentOf, type Key } from '../key.ts';
import type { Storage } from '../storage.ts';

const codes: Record<string, { code: ErrorCode; hint?: string }> = {
  ENOENT: { code: 'storage_not_found' },
  EACCES: { code: 'storage_denied', hint: 'give the user that waybill runs as access to it' },
  EPERM: { code: 'storage_denied', hint: 'give the user that waybill runs as access to it' },
  EXDEV: {
    code: 'storage_permanent',
    hint: 'another file system is mounted below the destination, and files cannot be moved to it in one step; make it a destination of its own, or unmount it',
  },
  ENAMETOOLONG: {
    code: 'storage_permanent',
    hint: 'the file system does not take this name or path; give the file, or the destination, a shorter one',
  },
  EROFS: { code: 'storage_denied', hint: 'the file system is mounted read-only' },
  ENOSPC: { code: 'storage_full', hint: 'free some space and run again; nothing was lost' },
  EDQUOT: {
    code: 'storage_full',
    hint: 'raise the quota or free some space and run again; nothing was lost',
  },
  EFBIG: { code: 'storage_full', hint: 'the file system or a limit does not allow files of this size' },
  EAGAIN: { code: 'storage_transient' },
  EBUSY: { code: 'storage_transient' },
  EINTR: { code: 'storage_transient' },
  EMFILE: { code: 'storage_transient', hint: 'raise the limit on open files (ulimit -n)' },
  ENFILE: { code: 'storage_transient' },
  ETIMEDOUT: { code: 'storage_transient' },
  ESTALE: { code: 'storage_transient' },
};

/** The code of a system error, such as `ENOENT`; undefined for any other error. Pure. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Whether nothing is there: the name does not exist, or a file is in the place of one of its directories. */
export function isAbsent(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

/**
 * Maps a system error to a `storage_*` code: `storage_not_found`, `storage_denied`, `storage_full`,
 * `storage_transient` or, if it is none of these, `storage_permanent`. A `WaybillError` is returned
 * unchanged. Pure.
 */
export function localFailure(storage: Pick<Storage, 'label'>, key: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  const errno = errnoOf(error);
  const { code, hint } = (errno !== undefined ? codes[errno] : undefined) ?? {
    code: 'storage_permanent' as const,
    hint: undefined,
  };
  const message = `${storage.label}: "${key}": ${describe(error)}`;
  return new WaybillError(code, message, hint === undefined ? { cause: error } : { cause: error, hint });
}

/** A directory below the root cannot be made; the hint names the one above it. Pure. */
export function cannotMakeDirectory(
  storage: Pick<Storage, 'label'>,
  directory: Key,
  error: unknown,
): WaybillError {
  const { code, hint } = localFailure(storage, directory, error);
  const parent = parentOf(directory);
  const where = parent === '' ? 'the root of the destination' : `"${parent}"`;
  const isDenied = code === 'storage_denied' && errnoOf(error) !== 'EROFS';
  return new WaybillError(
    code,
    `${storage.label}: the directory "${directory}" cannot be made: ${describe(error)}`,
    {
      cause: error,
      ...(isDenied
        ? { hint: `let the user that waybill runs as write to ${where}` }
        : hint === undefined
          ? {}
          : { hint }),
    },
  );
}

/** `EACCES: permission denied`, without the absolute path and system call that Node.js appends. */
function describe(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split(', ')[0] ?? message;
}

/** What `work` returns; undefined if it fails because there is no such file. Throws its other errors. */
export function unlessAbsent<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
