import { WaybillError, type ErrorCode } from '../../errors.ts';

/** The connection went away, or did not answer in time: what was under way may or may not have been done. */
export class ConnectionLost extends Error {}

/** The answers of version 3 of the protocol (draft-ietf-secsh-filexfer-02, section 7). */
export const noSuchFile = 2;
const permissionDenied = 3;
export const generalFailure = 4;
const noConnection = 6;
const connectionLost = 7;
const unsupported = 8;

export function answerOf(error: unknown): number | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'number' ? code : null;
}

/**
 * Turns what a request failed with into the storage's own words; what is one of ours already passes as it is.
 */
export function requestFailure(label: string, key: string, error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  if (error instanceof ConnectionLost)
    return new WaybillError('storage_transient', `${label}: "${key}": ${error.message}`, { cause: error });
  const { code, why, hint } = judged(answerOf(error), error);
  const details = hint === undefined ? { cause: error } : { cause: error, hint };
  return new WaybillError(code, `${label}: "${key}": ${why}`, details);
}

function judged(answer: number | null, error: unknown): { code: ErrorCode; why: string; hint?: string } {
  switch (answer) {
    case noSuchFile:
      return { code: 'storage_not_found', why: 'there is no such file or directory' };
    case permissionDenied:
      return {
        code: 'storage_denied',
        why: 'the server denies it',
        hint: 'give the user that waybill logs in as the right to it',
      };
    case noConnection:
    case connectionLost:
      return { code: 'storage_transient', why: 'the connection was lost' };
    case unsupported:
      return { code: 'storage_permanent', why: 'the server does not know this request' };
    case generalFailure:
      return {
        code: 'storage_permanent',
        why: 'the server failed, and does not say why',
        hint: 'see the log of the server; often its disk or a quota is full, or a directory is in the way',
      };
    default:
      return { code: 'storage_permanent', why: error instanceof Error ? error.message : String(error) };
  }
}

/** A write that failed because there is no room. */
export function noSpace(label: string, key: string, cause: unknown): WaybillError {
  return new WaybillError('storage_full', `${label}: "${key}": the file system of the server is full`, {
    cause,
    hint: 'free some space there and run again; nothing was lost',
  });
}

/** Why no connection came about, and what to do. */
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
      'the SSH agent holds more keys than the server lets anyone try (MaxAuthTries); take some away, or run with an empty SSH_AUTH_SOCK so that only ssh_key_file is tried',
    );
  if (code === 'ENOTFOUND' || /address lookup failed/i.test(message))
    return fail('storage_permanent', 'the name of the host is not known', 'check `host`');
  if (code === 'EAI_AGAIN') return fail('storage_transient', 'the name of the host cannot be looked up now');
  if (code === 'ECONNREFUSED')
    return fail('storage_transient', 'nobody listens there', 'check `host` and `port`, and that sshd runs');
  if (/no matching|handshake failed/i.test(message))
    return fail('storage_permanent', `no agreement with the server: ${message}`);
  if (/unable to start subsystem|subsystem/i.test(message))
    return fail(
      'storage_permanent',
      'the server speaks no SFTP to this user',
      'it needs a line `Subsystem sftp internal-sftp` in its sshd_config',
    );
  return fail(
    'storage_transient',
    `no connection: ${message}`,
    'check `host` and `port`, and that sshd runs',
  );
}
