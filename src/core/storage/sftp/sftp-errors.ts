import { type ErrorCode, errorTable } from '../../lib/error-codes.ts';
import { errorMessage, WaybillError } from '../../lib/errors.ts';
import { isReservedPath } from '../../lib/paths.ts';

/** The connection was lost or timed out. The server may or may not have executed the requests in flight. */
export class DisconnectError extends Error {}

/**
 * The status codes of version 3 of the protocol (draft-ietf-secsh-filexfer-02, section 7), and those of later
 * versions (draft 13, section 9.1). Some servers use the latter even if the client speaks version 3.
 */
const code = {
  noSuchFile: 2,
  permissionDenied: 3,
  generalFailure: 4,
  noConnection: 6,
  connectionLost: 7,
  unsupported: 8,
  noSuchPath: 10,
  exists: 11,
  writeProtected: 12,
  noSpace: 14,
  quotaExceeded: 15,
  lockConflict: 17,
  notEmpty: 18,
  notADirectory: 19,
  invalidName: 20,
  linkLoop: 21,
  isADirectory: 24,
} as const;

/** Returns the status code that the server answered with, or null if this is any other error. */
export function statusOf(error: unknown): number | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'number' ? code : null;
}

/** Returns true if a file does not exist, or if there is a file where a directory above it should be. */
export function isAbsent(error: unknown): boolean {
  const answer = statusOf(error);
  if (answer === code.noSuchFile || answer === code.noSuchPath || answer === code.notADirectory) return true;
  // Version 3 has no code for this, and ProFTPD only says it in the message.
  return (
    answer === code.generalFailure && error instanceof Error && /\bnot a directory$/i.test(error.message)
  );
}

/** Returns true if the name may already be taken. In version 3, all the server can say is "failure". */
export function mayExist(error: unknown): boolean {
  const answer = statusOf(error);
  return answer === code.generalFailure || answer === code.exists;
}

/** Returns true if ssh2 reports that the SFTP session has ended before the server answered. */
export function isSessionEnded(error: unknown): boolean {
  return error instanceof Error && statusOf(error) === null && error.message === 'No response from server';
}

/** Returns true if the server did not say why it failed. */
export function hasNoReason(error: unknown): boolean {
  return statusOf(error) === code.generalFailure;
}

export function isDenied(error: unknown): boolean {
  return statusOf(error) === code.permissionDenied;
}

/** Returns true if either the server or this client does not support the request. */
export function isUnsupported(error: unknown): boolean {
  const answer = statusOf(error);
  return answer === null || answer === code.unsupported;
}

/**
 * Converts the error of a failed request to one with a `storage_*` code. If the connection was lost, that is
 * `storage_transient`. If it already is a `WaybillError`, it is returned unchanged.
 */
export function requestFailure(label: string, key: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  if (error instanceof DisconnectError)
    return new WaybillError('storage_transient', `${label}: "${key}": ${error.message}`, { cause: error });
  const { code, why, hint } = meaningOf(statusOf(error), error);
  const details = hint === undefined ? { cause: error } : { cause: error, hint };
  return new WaybillError(code, `${label}: "${key}": ${why}`, details);
}

const fullHint = 'free some space there and run again; nothing was lost';
const takenHint = 'move it away, or publish to another path';

function meaningOf(answer: number | null, error: unknown): { code: ErrorCode; why: string; hint?: string } {
  switch (answer) {
    case code.noSuchFile:
    case code.noSuchPath:
      return { code: 'storage_not_found', why: 'there is no such file or directory' };
    case code.permissionDenied:
      return {
        code: 'storage_denied',
        why: 'permission denied by the server',
        hint: 'give the login user access to it',
      };
    case code.writeProtected:
      return { code: 'storage_denied', why: 'the file system of the server is read-only' };
    case code.noConnection:
    case code.connectionLost:
      return { code: 'storage_transient', why: 'the connection was lost' };
    case code.lockConflict:
      return { code: 'storage_transient', why: 'another process has locked it on the server' };
    case code.exists:
      return { code: 'storage_exists', why: 'exists already' };
    case code.noSpace:
    case code.quotaExceeded:
      return { code: 'storage_full', why: 'the file system of the server is full', hint: fullHint };
    case code.notEmpty:
      return { code: 'storage_permanent', why: 'the directory is not empty' };
    case code.notADirectory:
      return { code: 'storage_permanent', why: 'something in its path is not a directory', hint: takenHint };
    case code.isADirectory:
      return { code: 'storage_permanent', why: 'is a directory', hint: takenHint };
    case code.invalidName:
      return { code: 'storage_permanent', why: 'the server does not allow such a name' };
    case code.linkLoop:
      return { code: 'storage_permanent', why: 'too many levels of symbolic links' };
    case code.unsupported:
      return { code: 'storage_permanent', why: 'the server does not know this request' };
    case code.generalFailure:
      return {
        code: 'storage_permanent',
        why: 'the server failed and does not say why',
        hint: 'see the log of the server; often its disk or a quota is full, or there is a directory of that name',
      };
    default:
      return { code: 'storage_permanent', why: reasonOf(error) };
  }
}

/**
 * Returns the message of an error. A `TypeError` has none for users: the library or we read a part of an
 * answer that the server left out.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return 'the server broke the SFTP protocol: an answer has another type';
  return errorMessage(error);
}

/**
 * Creates the error for a directory that the server will not create in `parent`. `isRoot` is set for the root
 * and the directories above it. The code is `storage_unavailable` then, since it may just be that a file
 * system is not mounted on the server.
 */
export function createError(
  label: string,
  directory: string,
  parent: string,
  error: unknown,
  { isRoot }: { isRoot: boolean },
): WaybillError {
  const { code: as, why, hint } = meaningOf(statusOf(error), error);
  // Directories with reserved names are only ever created by waybill.
  const orMake = isReservedPath(directory) ? '' : `, or create "${directory}" for that user`;
  const better = isDenied(error) ? `give the login user write access to "${parent}"${orMake}` : hint;
  const code = isRoot && !errorTable[as].retryable ? 'storage_unavailable' : as;
  return new WaybillError(code, `${label}: the directory "${directory}" cannot be created: ${why}`, {
    cause: error,
    hint: better,
  });
}

/**
 * `storage_denied`: the server does not allow `key` to be changed. `directory` is the nearest directory above
 * it that we can read. It either cannot be changed, or its entries cannot be accessed.
 */
export function deniedChange(
  label: string,
  {
    key,
    directory,
    stats: { mode, uid, gid },
  }: { key: string; directory: string; stats: { mode: number; uid: number; gid: number } },
  cause: unknown,
): WaybillError {
  const rights = `mode ${(mode & 0o7777).toString(8).padStart(4, '0')}, owner ${uid}:${gid}`;
  return new WaybillError(
    'storage_denied',
    `${label}: "${key}" cannot be changed: permission denied by the server`,
    {
      cause,
      hint: `give the login user write access to the directory "${directory}" (${rights})`,
    },
  );
}

/** `storage_full`: a write failed because there is no space left on the server. */
export function noSpace(label: string, key: string, cause: unknown): WaybillError {
  return new WaybillError('storage_full', `${label}: "${key}": the file system of the server is full`, {
    cause,
    hint: fullHint,
  });
}

/**
 * Converts the error of a failed connection attempt to `storage_denied`, `storage_permanent`, or
 * `storage_transient`, with a hint. If it already is a `WaybillError`, it is returned unchanged.
 */
export function connectFailure(label: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  const message = errorMessage(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const fail = (as: ErrorCode, why: string, hint?: string): WaybillError =>
    new WaybillError(as, `${label}: ${why}`, hint === undefined ? { cause: error } : { cause: error, hint });
  if (/authentication methods failed/i.test(message))
    return fail(
      'storage_denied',
      'the server accepts none of the SSH keys',
      'add the public key to authorized_keys of that user on the server, or name another ssh_key_file or agent',
    );
  if (/too many authentication failures/i.test(message))
    return fail(
      'storage_denied',
      'the server refused after too many SSH keys',
      'the SSH agent holds more keys than the server accepts attempts (MaxAuthTries); remove some, or run with an empty SSH_AUTH_SOCK so that only ssh_key_file is tried',
    );
  if (code === 'ENOTFOUND' || /address lookup failed/i.test(message))
    return fail('storage_transient', 'the host name cannot be resolved', 'check the host name, and DNS');
  if (code === 'EAI_AGAIN')
    return fail(
      'storage_transient',
      'the host name could not be looked up',
      'check the spelling of the host name, then the network and DNS of this machine',
    );
  if (code === 'ECONNREFUSED')
    return fail('storage_transient', 'connection refused', 'check `host` and `port`, and that sshd runs');
  if (/no matching|handshake failed/i.test(message))
    return fail('storage_permanent', `the SSH handshake failed: ${message}`);
  if (/unable to start subsystem|subsystem/i.test(message))
    return fail(
      'storage_permanent',
      'the server does not offer SFTP to this user',
      'its sshd_config needs the line `Subsystem sftp internal-sftp`',
    );
  const exit = /received exit code (\d+)/i.exec(message)?.[1];
  if (exit !== undefined)
    return fail(
      'storage_permanent',
      `the SFTP program of the server ended with exit code ${exit} before it answered`,
      'check the program in the `Subsystem sftp` line of its sshd_config, and the login shell of the user',
    );
  if (/packet length|version packet|packet type/i.test(message))
    return fail(
      'storage_permanent',
      'the server sent something other than SFTP, such as the text of a login script',
      'let login scripts print nothing if there is no terminal, or use `Subsystem sftp internal-sftp`',
    );
  if (error instanceof DisconnectError)
    return fail('storage_transient', error.message, 'check that sshd runs');
  return fail(
    'storage_transient',
    `no connection: ${message}`,
    'check `host` and `port`, and that sshd runs',
  );
}
