import { WaybillError, type ErrorCode } from '../../errors.ts';

/** The connection broke or timed out: the requests in flight may or may not have been carried out. */
export class ConnectionLost extends Error {}

/** Status codes of protocol version 3 (draft-ietf-secsh-filexfer-02, section 7). */
export const noSuchFile = 2;
const permissionDenied = 3;
export const generalFailure = 4;
const noConnection = 6;
const connectionLost = 7;
export const unsupported = 8;

/** The status code that the server answered with; null for any other error. Pure. */
export function answerOf(error: unknown): number | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'number' ? code : null;
}

/**
 * Maps the failure of a request to a `storage_*` code; a lost connection is `storage_transient`. A
 * `WaybillError` is returned unchanged. Pure.
 */
export function requestFailure(label: string, key: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  if (error instanceof ConnectionLost)
    return new WaybillError('storage_transient', `${label}: "${key}": ${error.message}`, { cause: error });
  const { code, why, hint } = meaningOf(answerOf(error), error);
  const details = hint === undefined ? { cause: error } : { cause: error, hint };
  return new WaybillError(code, `${label}: "${key}": ${why}`, details);
}

function meaningOf(answer: number | null, error: unknown): { code: ErrorCode; why: string; hint?: string } {
  switch (answer) {
    case noSuchFile:
      return { code: 'storage_not_found', why: 'there is no such file or directory' };
    case permissionDenied:
      return {
        code: 'storage_denied',
        why: 'the server denies it',
        hint: 'give the user that waybill logs in as access to it',
      };
    case noConnection:
    case connectionLost:
      return { code: 'storage_transient', why: 'the connection was lost' };
    case unsupported:
      return { code: 'storage_permanent', why: 'the server does not know this request' };
    case generalFailure:
      return {
        code: 'storage_permanent',
        why: 'the server failed and does not say why',
        hint: 'see the log of the server; often its disk or a quota is full, or there is a directory of that name',
      };
    default:
      return { code: 'storage_permanent', why: error instanceof Error ? error.message : String(error) };
  }
}

/** `storage_full`: a write failed because the server's file system is full. */
export function noSpace(label: string, key: string, cause: unknown): WaybillError {
  return new WaybillError('storage_full', `${label}: "${key}": the file system of the server is full`, {
    cause,
    hint: 'free some space there and run again; nothing was lost',
  });
}

/**
 * Maps a failed connection attempt to `storage_denied`, `storage_permanent` or `storage_transient`, with a
 * hint. A `WaybillError` is returned unchanged. Pure.
 */
export function connectFailure(label: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const fail = (as: ErrorCode, why: string, hint?: string): WaybillError =>
    new WaybillError(as, `${label}: ${why}`, hint === undefined ? { cause: error } : { cause: error, hint });
  if (/authentication methods failed/i.test(message))
    return fail(
      'storage_denied',
      'the server accepts none of the identities',
      'add the public key to authorized_keys of that user on the server, or name another ssh_key_file or agent',
    );
  if (/too many authentication failures/i.test(message))
    return fail(
      'storage_denied',
      'the server refused after too many identities',
      'the SSH agent holds more keys than the server accepts attempts (MaxAuthTries); remove some, or run with an empty SSH_AUTH_SOCK so that only ssh_key_file is tried',
    );
  if (code === 'ENOTFOUND' || /address lookup failed/i.test(message))
    return fail('storage_permanent', 'the name of the host is not known', 'check `host`');
  if (code === 'EAI_AGAIN')
    return fail('storage_transient', 'the name of the host cannot be looked up at the moment');
  if (code === 'ECONNREFUSED')
    return fail('storage_transient', 'nobody listens there', 'check `host` and `port`, and that sshd runs');
  if (/no matching|handshake failed/i.test(message))
    return fail('storage_permanent', `no agreement with the server: ${message}`);
  if (/unable to start subsystem|subsystem/i.test(message))
    return fail(
      'storage_permanent',
      'the server speaks no SFTP to this user',
      'its sshd_config needs the line `Subsystem sftp internal-sftp`',
    );
  return fail(
    'storage_transient',
    `no connection: ${message}`,
    'check `host` and `port`, and that sshd runs',
  );
}
