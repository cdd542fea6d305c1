import { readFile } from 'node:fs/promises';
import { type Client, connect, exchangedToken, type TokenSource } from '../../client/client.ts';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { WaybillError, withDetails } from '../../core/lib/errors.ts';
import { formatDuration, parseDuration } from '../../core/lib/settings/sizes-and-durations.ts';
import { describeFileError } from '../../core/lib/system-errors.ts';
import { isMistyped } from '../../core/lib/token.ts';
import type { Output } from '../output/output.ts';
import { ciAdvice, ciIdentity } from './ci-identity.ts';
import type { RemoteFlags } from './command-options.ts';

/**
 * Creates a client for the daemon in the options. Prints to stderr when a request is retried, and when the
 * identity of a CI job is used. Throws `usage` if the URL is invalid, and `secrets_invalid` if there is no
 * token, unless `tokenIsOptional` is set.
 */
export async function openClient(
  flags: RemoteFlags,
  {
    output,
    signal,
    tokenIsOptional = false,
    maxRate,
    pipeline,
    beforeNote = () => undefined,
  }: {
    output: Output;
    signal: AbortSignal;
    tokenIsOptional?: boolean;
    maxRate?: number | undefined;
    /** The pipeline that the command is about, if there is only one. */
    pipeline?: string;
    beforeNote?: () => void;
  },
): Promise<Client> {
  const note = (text: string): void => {
    beforeNote();
    output.note(text);
  };
  const token =
    (await tokenOf(flags)) ?? (tokenIsOptional ? undefined : identityOf(flags, { pipeline, note }));
  if (token === undefined && !tokenIsOptional) {
    const advice = ciAdvice(process.env);
    throw new WaybillError('secrets_invalid', 'no token was given', {
      hint: `set WAYBILL_TOKEN, or name a file that holds it with --token-file; waybill token new creates one${advice === undefined ? '' : `; without a secret: ${advice}`}`,
    });
  }
  return connect({
    url: flags.to,
    signal,
    token,
    maxRate,
    onRetry: retryNotes(note, systemClock),
  });
}

const repeatNoteAfterMs = 60_000;

/** Notes each failure that is retried. If the server stays down, repeats the note once a minute. */
export function retryNotes(
  note: (text: string) => void,
  clock: Pick<Clock, 'monotonic'>,
): (failure: Error, pauseMs: number) => void {
  let noted = { message: '', atMs: 0 };
  return ({ message }, pauseMs) => {
    const atMs = clock.monotonic();
    if (message === noted.message && atMs - noted.atMs < repeatNoteAfterMs) return;
    noted = { message, atMs };
    note(`${message}; trying again in ${formatDuration(pauseMs)}`);
  };
}

/** Gets a token for a trusted publisher, if this process is in a CI job that has an identity. */
function identityOf(
  { to }: RemoteFlags,
  { pipeline, note }: { pipeline: string | undefined; note: (text: string) => void },
): TokenSource | undefined {
  const identity = ciIdentity(process.env);
  if (identity === null) return undefined;
  const { WAYBILL_AUDIENCE: audience = to.replace(/\/+$/, '') } = process.env;
  return exchangedToken({
    idToken: () => identity.idToken(audience),
    isRenewable: identity.isRenewable,
    pipeline,
    onIssued: ({ publisherId, subject }) =>
      note(`trusted publisher ${publisherId}, by ${identity.name}${subject === null ? '' : `: ${subject}`}`),
    clock: systemClock,
  });
}

/**
 * Returns the token from the options or the environment, or undefined if there is none. Throws
 * `secrets_invalid` if it cannot be valid.
 */
export async function tokenOf({ tokenFile }: RemoteFlags): Promise<string | undefined> {
  const rawToken = tokenFile === undefined ? process.env['WAYBILL_TOKEN'] : await readToken(tokenFile);
  const token = rawToken?.trim();
  if (token === undefined || token === '') return undefined;
  const hint = `look at ${tokenFile === undefined ? 'WAYBILL_TOKEN' : `"${tokenFile}"`}`;
  if (isMistyped(token))
    throw new WaybillError(
      'secrets_invalid',
      'the token is incomplete or mistyped: its checksum does not match',
      {
        hint,
      },
    );
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new WaybillError('secrets_invalid', 'the token is not one line of printable ASCII characters', {
    hint,
  });
}

async function readToken(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const reason = describeFileError(error);
    throw new WaybillError('secrets_invalid', `the token file "${file}" cannot be read: ${reason}`, {
      hint: 'check the path after --token-file',
      cause: error,
    });
  }
}

/* Suggests what the user can do about an error. */
type Remedy = (url: string) => string;

/**
 * Used instead of the daemon's hint, which is about HTTP, or if there is no hint because the error comes from
 * the client.
 */
const replacementHints: Partial<Record<ErrorCode, Remedy>> = {
  unauthorized: () => 'the daemon does not know this token: check WAYBILL_TOKEN, or the file of --token-file',
  pipeline_takes_uploads: (url) => `waybill push DIRECTORY --to ${url} publishes a directory through it`,
  pipeline_not_found: (url) => `waybill pipelines --to ${url} lists the pipelines of the token`,
  run_not_found: (url) => `waybill runs list --to ${url} shows the runs that the daemon retains`,
  run_not_finished: (url) => `wait for its end (waybill runs follow --to ${url}), or cancel it`,
  not_found: () => 'check the URL, including server.http.base_path of the daemon if it is set',
  upload_not_found: () =>
    'the daemon no longer has the upload; behind a load balancer, one host must get all of its requests (docs/producers.md)',
  upload_locked: () => 'another client is sending the same bundle: wait, and run the same command again',
};

/** Added to the daemon's hint, which is about the settings of the daemon. */
const additionalHints: Partial<Record<ErrorCode, Remedy>> = {
  forbidden: (url) => `waybill pipelines --to ${url} lists the pipelines of the token`,
  insufficient_scope: () => 'ask the administrator of the daemon for a token with that scope',
  bundle_gone: (url) => `send it again: waybill push --to ${url}`,
  partial_uploads_full: () => 'wait, or send it in one request: --resumable never',
};

/** Used if there is no hint. */
const fallbackHints: Partial<Record<ErrorCode, Remedy>> = {
  run_unfinished: (url) => `waybill runs list --to ${url} shows its result`,
  connection_lost: () => 'run the same command again: an accepted upload is not published twice',
};

/** Runs `work`, and adds suggestions for the user to the errors that it throws. */
export async function withRemedies<T>({ to }: RemoteFlags, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    const hint = remedyFor(error, to);
    if (hint === error.hint || hint === undefined) throw error;
    throw withDetails(error, { hint });
  }
}

function remedyFor({ code, hint }: WaybillError, url: string): string | undefined {
  const after = additionalHints[code]?.(url);
  if (after !== undefined) return hint === undefined ? after : `${hint}; ${after}`;
  return replacementHints[code]?.(url) ?? hint ?? fallbackHints[code]?.(url);
}

/**
 * Parses the `--timeout` option, in milliseconds. Returns undefined if it is absent. Throws a `usage` error
 * if it is invalid.
 */
export function timeoutOf({ timeout }: { timeout?: string }): number | undefined {
  if (timeout === undefined) return undefined;
  const ms = parseDuration(timeout);
  if (ms !== undefined) return ms;
  throw new WaybillError('usage', `--timeout: "${timeout}" is not a duration with a unit`, {
    hint: 'write it like 90s or 10m',
  });
}
