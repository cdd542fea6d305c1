import type { ErrorCode } from '../../lib/error-codes.ts';
import { WaybillError } from '../../lib/errors.ts';
import { quotedName } from '../../lib/text.ts';

/** The archive holds something that no bundle may have. */
export function unsafeEntry(name: string, reason: string): WaybillError {
  return archiveError(
    'unsafe_archive_entry',
    `the archive entry ${quotedName(name)} ${reason}`,
    'send regular files and directories only',
  );
}

/** The archive cannot be read. */
export function malformedArchive(message: string, cause?: unknown): WaybillError {
  return archiveError(
    'malformed_archive',
    message,
    'make the archive again with tar and upload it whole',
    cause,
  );
}

/**
 * The archive ends early.
 *
 * @param isEmpty Whether no entry was read yet.
 * @param found The number of bytes that were left.
 */
export function truncatedArchive(isEmpty: boolean, found: number): WaybillError {
  if (isEmpty && found === 0) return malformedArchive('the upload is empty');
  return malformedArchive(isEmpty ? 'the upload is not a tar archive' : 'the archive is cut short');
}

export function archiveError(code: ErrorCode, message: string, hint: string, cause?: unknown): WaybillError {
  return new WaybillError(code, message, { hint, cause });
}
