import { type ErrorCode, errorTable } from '../core/lib/error-codes.ts';
import { type Finding, WaybillError } from '../core/lib/errors.ts';
import { parseRetryAfter } from '../core/lib/retry.ts';
import { describeNetworkError } from '../core/lib/system-errors.ts';
import type { HttpResponse } from './exchange.ts';

const unreachable = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EADDRNOTAVAIL',
]);
const certificate =
  /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA|EPROTO$)/;

/** The statuses that proxies send when the server is unreachable or busy. */
const transientStatuses: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

/** Converts a connection error to a `WaybillError`. */
export function connectionFailure(thrown: unknown, { origin, host }: URL): WaybillError {
  if (thrown instanceof WaybillError) return thrown;
  const { code, message, reason } = asSystemError(thrown);
  // OpenSSL thinks that the first bytes of the response are a TLS version, but it is a different protocol.
  if (code === 'EPROTO' && /wrong version number|packet length too long/.test(message))
    return new WaybillError('tls_failed', `${host} answers in plain HTTP, not HTTPS`, {
      hint: `use http://${host}`,
      cause: thrown,
    });
  if (certificate.test(code))
    return new WaybillError('tls_failed', `no secure connection to ${origin}: ${message}`, {
      hint: 'check the URL; for a private certificate authority, set NODE_EXTRA_CA_CERTS',
      cause: thrown,
    });
  if (unreachable.has(code))
    return new WaybillError('daemon_unreachable', `${origin} cannot be reached: ${reason}`, {
      hint: /^E(NOTFOUND|AI_AGAIN|NET)/.test(code)
        ? 'check the host name in the URL, and the network of this machine'
        : 'check the URL, and that the daemon runs',
      cause: thrown,
    });
  if (code === 'HPE_INVALID_CONSTANT')
    return new WaybillError('unexpected_answer', `the server at ${origin} does not speak HTTP`, {
      hint: 'check the URL: its port, and whether it begins with https',
      cause: thrown,
    });
  return new WaybillError('connection_lost', `the connection to ${origin} was lost: ${message}`, {
    cause: thrown,
  });
}

/**
 * The cause of an `upload_too_large` error that comes from a proxy, since proxies limit the size of each
 * request.
 */
export class BodyTooLongError extends Error {
  override name = 'BodyTooLongError';
}

/** Converts a response that is not 2xx to an error. Reads the response body. */
export async function responseError(answer: HttpResponse, url: URL, now: Date): Promise<WaybillError> {
  const { status, headers } = answer;
  const afterMs = parseRetryAfter(headers['retry-after'], now);
  const patience = { retryAfterSeconds: afterMs && Math.ceil(afterMs / 1000) };
  const problem = problemIn(headers['content-type'], await readBodyText(answer));
  if (problem !== null) return problemError(problem, patience);
  const message = `${url.origin}${url.pathname} answers ${status}, which is not an answer of waybill`;
  if (transientStatuses.has(status))
    return new WaybillError('connection_lost', message, {
      ...patience,
      hint: 'a proxy in front of the daemon reports that it is unreachable or busy',
    });
  if (status === 413)
    return new WaybillError('upload_too_large', message, {
      hint: 'a proxy in front of the daemon refuses bodies of this size: ask its administrator to raise the limit',
      cause: new BodyTooLongError(message),
    });
  const location = headers.location;
  return new WaybillError('unexpected_answer', message, {
    hint:
      location === undefined
        ? 'check the URL, including server.http.base_path of the daemon if it is set'
        : `check the URL: it redirects to ${location}`,
  });
}

/** The fields of a problem document (RFC 9457) that the client looks at. */
interface ProblemFields {
  code: string;
  /** The error message, followed by the hint. */
  detail: string;
  hint?: string;
  retryable?: boolean;
  findings?: Finding[];
}

/**
 * Creates an error from the daemon's description. If this version does not know its code, uses a more general
 * one.
 */
export function problemError(
  { code, detail, hint: rawHint, retryable, findings = [] }: ProblemFields,
  patience: { retryAfterSeconds?: number | undefined } = {},
): WaybillError {
  const hint = typeof rawHint === 'string' ? rawHint : undefined;
  const end = `; ${hint ?? ''}`;
  const message = hint !== undefined && detail.endsWith(end) ? detail.slice(0, -end.length) : detail;
  const known = Object.hasOwn(errorTable, code)
    ? (code as ErrorCode)
    : retryable === true
      ? 'connection_lost'
      : 'unexpected_answer';
  return new WaybillError(known, message, { ...patience, hint, findings });
}

/** Reports whether a response body is a problem document. */
export function isProblem(body: unknown): body is ProblemFields {
  const { code, detail } = (body ?? {}) as Partial<ProblemFields>;
  return typeof code === 'string' && typeof detail === 'string';
}

/** The daemon never sends a response that is larger than this. */
const maxAnswerBytes = 256 * 2 ** 20;

/** Reads the body as text. If it is larger than `maxAnswerBytes`, throws an `unexpected_answer` error. */
export async function readBodyText(answer: HttpResponse): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.read()) {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > maxAnswerBytes) throw new WaybillError('unexpected_answer', 'the answer does not end');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function problemIn(type: string | undefined, text: string): ProblemFields | null {
  if (type?.startsWith('application/problem+json') !== true) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isProblem(value) ? value : null;
  } catch {
    return null;
  }
}

function asSystemError(thrown: unknown): { code: string; message: string; reason: string } {
  // If a host has several addresses, there is one error for each of them.
  const error = thrown instanceof AggregateError ? (thrown.errors[0] as unknown) : thrown;
  if (!(error instanceof Error)) return { code: '', message: String(error), reason: String(error) };
  return {
    code: 'code' in error && typeof error.code === 'string' ? error.code : '',
    message: error.message,
    reason: describeNetworkError(error),
  };
}
