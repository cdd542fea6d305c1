import type { ErrorCode } from '../../lib/error-codes.ts';
import { WaybillError } from '../../lib/errors.ts';
import { parseRetryAfter } from '../../lib/retry.ts';
import { maxResponseBytes, responseTooLarge } from './answer-limit.ts';

/**
 * A failed call, with the error code from S3 or Node.js. If the server responded, it also has the status and
 * headers.
 */
interface S3Failure {
  name: string;
  message: string;
  status: number | null;
  headers: Readonly<Record<string, string | undefined>>;
}

export interface S3Place {
  /** The name of the storage in messages. */
  label: string;
  bucket: string;
  /** The server's URL. null or undefined means AWS. */
  endpoint?: string | null;
}

interface ErrorMapping {
  code: ErrorCode;
  /** Used instead of the server's own message. */
  message?: string;
  hint?: string;
}

export const wrongServer = 'check endpoint, and whether the server needs path_style: true';
const clockHint = 'set the clock of this machine (chrony, systemd-timesyncd), then run again';

/**
 * Error codes and hints, by the error code from S3 or the error name from Node.js. For any other failure, the
 * status decides.
 */
const meanings: Record<string, ErrorMapping> = {
  NoSuchKey: { code: 'storage_not_found' },
  NoSuchUpload: {
    code: 'storage_permanent',
    message: 'the multipart upload is gone: another publisher or a lifecycle rule aborted it',
    hint: 'run again; none of it was published',
  },
  AccessDenied: {
    code: 'storage_denied',
    hint: 'give the credentials the rights that docs/s3.md lists, on this bucket and prefix',
  },
  InvalidAccessKeyId: {
    code: 'storage_denied',
    message: 'the server does not know the access key id',
    hint: 'check the variable that access_key_id_env names, and that the endpoint belongs to the account',
  },
  SignatureDoesNotMatch: {
    code: 'storage_denied',
    message: 'the signature is not the one that the server computed, so the secret access key is wrong',
    hint: 'check the variable that secret_access_key_env names (a trailing newline or a missing end is easy to overlook), and that no proxy changes requests',
  },
  ExpiredToken: { code: 'storage_denied', hint: 'the temporary credentials have expired; get new ones' },
  InvalidToken: { code: 'storage_denied', hint: 'get new temporary credentials' },
  CredentialsProviderError: {
    code: 'storage_denied',
    message: 'no S3 credentials were found',
    hint: 'set access_key_id_env and secret_access_key_env, or AWS_PROFILE, or attach an IAM role to this machine',
  },
  QuotaExceeded: { code: 'storage_full', hint: 'raise the quota or free some space; nothing was lost' },
  XMinioStorageFull: { code: 'storage_full', hint: 'free some space on the server; nothing was lost' },
  PreconditionFailed: { code: 'storage_conflict' },
  ConditionalRequestConflict: { code: 'storage_transient' },
  OperationAborted: { code: 'storage_transient' },
  SlowDown: {
    code: 'storage_transient',
    message: 'the server asks to slow down',
    hint: 'lower file_concurrency, or run again later',
  },
  RequestTimeout: { code: 'storage_transient' },
  BadDigest: { code: 'storage_transient', message: 'the bytes were damaged on their way to the server' },
  XAmzContentSHA256Mismatch: {
    code: 'storage_transient',
    message: 'the bytes were damaged on their way to the server',
  },
  IncompleteBody: { code: 'storage_transient', message: 'the bytes did not all arrive' },
  NotImplemented: { code: 'storage_permanent', message: 'the server does not implement this request' },
  [responseTooLarge]: {
    code: 'storage_permanent',
    message: `the answer is longer than ${maxResponseBytes} bytes, and an S3 server sends less`,
    hint: wrongServer,
  },
  TimeoutError: { code: 'storage_transient', message: 'no answer in time' },
  ECONNREFUSED: {
    code: 'storage_transient',
    message: 'connection refused',
    hint: 'check endpoint, and that the server runs',
  },
  ENOTFOUND: {
    code: 'storage_transient',
    message: 'the host name cannot be resolved',
    hint: 'check endpoint, and DNS; with path_style: false the bucket is part of the host name',
  },
  EAI_AGAIN: {
    code: 'storage_transient',
    message: 'the host name could not be looked up',
    hint: 'check endpoint, then the network and DNS of this machine',
  },
  ECONNRESET: { code: 'storage_transient', message: 'the connection was lost' },
  EPIPE: { code: 'storage_transient', message: 'the connection was lost' },
  ETIMEDOUT: { code: 'storage_transient', message: 'the connection timed out' },
  EHOSTUNREACH: { code: 'storage_transient', message: 'no route to the server' },
  ENETUNREACH: { code: 'storage_transient', message: 'no route to the network' },
  EPROTO: {
    code: 'storage_permanent',
    message: 'no TLS connection could be made',
    hint: 'check whether endpoint should begin with http:// or https://',
  },
};

/** Converts a failed call to an error with a `storage_*` code, a message and, if possible, a hint. */
export function s3Error(place: S3Place, what: string, failure: S3Failure, now: Date): WaybillError {
  const meaning = byContext(place, failure, now) ?? mappingOf(failure.name) ?? byStatus(failure);
  const message = meaning.message ?? summary(failure);
  const retryAfterMs = parseRetryAfter(failure.headers['retry-after'], now);
  return new WaybillError(meaning.code, `${place.label}${what}: ${message}`, {
    // Do not use the SDK's own error, which contains access key ids and the text that was signed.
    cause: new S3AnswerError(failure),
    retryAfterSeconds:
      meaning.code === 'storage_transient' && retryAfterMs !== undefined
        ? Math.ceil(retryAfterMs / 1000)
        : undefined,
    hint: meaning.hint === undefined ? undefined : hintWithEndpoint(place, meaning.hint),
  });
}

function mappingOf(name: string): ErrorMapping | undefined {
  return Object.hasOwn(meanings, name) ? meanings[name] : undefined;
}

/**
 * Formats the key of a call for use in messages, after the label of the storage. If it has no key, uses the
 * endpoint.
 */
export function keyForMessage({ endpoint }: S3Place, key: string): string {
  if (key !== '') return `: ${JSON.stringify(key)}`;
  return typeof endpoint === 'string' ? ` at ${endpoint}` : '';
}

export function hintWithEndpoint({ endpoint }: S3Place, hint: string): string {
  return typeof endpoint === 'string'
    ? hint.replace(/^check endpoint/, `check endpoint (${endpoint})`)
    : hint;
}

/** The server's answer, without any secrets. */
export class S3AnswerError extends Error {
  readonly status: number | null;

  constructor({ name, message, status }: S3Failure) {
    super(message);
    this.name = name;
    this.status = status;
  }
}

/** Returns true if the server says that it does not support the condition of a request. */
export function isUnsupported(error: unknown): boolean {
  const answer = error instanceof WaybillError ? error.cause : undefined;
  if (!(answer instanceof S3AnswerError)) return false;
  const refusals = ['NotImplemented', 'InvalidArgument', 'InvalidRequest', 'MalformedHeader'];
  return answer.status === 501 || (answer.status === 400 && refusals.includes(answer.name));
}

/**
 * Returns the S3 error code or Node.js error name behind an error of this storage. Returns null for any other
 * error.
 */
export function errorNameOf(error: unknown): string | null {
  const answer = error instanceof WaybillError ? error.cause : undefined;
  return answer instanceof S3AnswerError ? answer.name : null;
}

/** Matches error codes and regions. Servers choose them, so anything else is not shown. */
const isWord = /^[\w.-]{1,100}$/;

/** Handles failures whose message depends on the bucket, the time, or the response headers. */
function byContext({ bucket }: S3Place, failure: S3Failure, now: Date): ErrorMapping | null {
  const { name, message, status, headers } = failure;
  if (name === 'NoSuchBucket')
    return {
      code: 'storage_permanent',
      message: `there is no bucket "${bucket}"`,
      hint: 'create it, or correct bucket, endpoint and path_style; waybill does not create buckets',
    };
  if (name === 'RequestTimeTooSkewed' || name === 'RequestExpired')
    return { code: 'storage_permanent', message: skew(headers['date'], now), hint: clockHint };
  if (name === 'AuthorizationHeaderMalformed' || name === 'PermanentRedirect' || status === 301) {
    const named = headers['x-amz-bucket-region'] ?? /expecting '([\w-]+)'/.exec(message)?.[1];
    const region = named !== undefined && isWord.test(named) ? named : undefined;
    return {
      code: 'storage_permanent',
      message: `the bucket "${bucket}" is in ${region === undefined ? 'another region' : `the region ${region}`}`,
      hint: region === undefined ? 'set the region and endpoint of the bucket' : `set region: ${region}`,
    };
  }
  if (status === 413)
    return {
      code: 'storage_permanent',
      message: 'the server, or a proxy in front of it, refuses requests of this size (status 413)',
      hint: 'raise the limit of the proxy (nginx: client_max_body_size) above 16 MiB, the largest part of an upload, and above the size of .publisher.json',
    };
  if (/region is missing/i.test(message))
    return {
      code: 'storage_permanent',
      message: 'no region is set',
      hint: 'set region, or AWS_REGION in the environment',
    };
  if (/certificate|CERT|ALTNAME/.test(`${name} ${message}`))
    return {
      code: 'storage_permanent',
      message: `the certificate of the server is not trusted (${name})`,
      hint: 'check endpoint; for a private authority set NODE_EXTRA_CA_CERTS',
    };
  return null;
}

/** Matches the operating system's error codes for sockets and name resolution. */
const systemCode = /^E(?:AI_)?[A-Z]+$/;

function byStatus({ name, status }: S3Failure): ErrorMapping {
  if (status === null)
    return systemCode.test(name)
      ? { code: 'storage_transient', hint: 'check endpoint, and that the server runs' }
      : { code: 'storage_permanent' };
  if (status === 401 || status === 403) return meanings['AccessDenied'] as ErrorMapping;
  // Only "NoSuchKey" means that the object does not exist. If we took a 404 page from some other server for
  // that, the destination would look empty.
  if (status === 404) return { code: 'storage_permanent', hint: wrongServer };
  if (status === 412) return { code: 'storage_conflict' };
  if (status === 501) return meanings['NotImplemented'] as ErrorMapping;
  if (status === 507) return meanings['QuotaExceeded'] as ErrorMapping;
  if (status === 408 || status === 409 || status === 429 || status >= 500)
    return { code: 'storage_transient' };
  // The request succeeded, but the response could not be parsed.
  if (status < 400) return { code: 'storage_permanent', hint: wrongServer };
  return { code: 'storage_permanent' };
}

function skew(date: string | undefined, now: Date): string {
  const serverTime = Date.parse(date ?? '');
  if (Number.isNaN(serverTime))
    return 'the clock of this machine differs too much from the clock of the server';
  const seconds = Math.round((now.getTime() - serverTime) / 1000);
  const way = seconds < 0 ? 'behind' : 'ahead of';
  return `the clock of this machine is ${Math.abs(seconds)} s ${way} the clock of the server, which allows at most 900 s`;
}

/** Advice for developers. The SDK adds it to the message when it cannot parse a response. */
const sdkAdvice = /Deserialization error: to see the raw response.*/s;

/** Returns the server's own message, reduced to a single line. */
function summary({ name, message, status }: S3Failure): string {
  const words = message
    .replace(sdkAdvice, '')
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, 200);
  const answer = status === null ? name : `${name}, status ${status}`;
  return words === '' || words === name ? answer : `${words} (${answer})`;
}

function wordOf(name: string): string {
  return isWord.test(name) ? name : 'UnknownError';
}

/** Converts errors of the SDK, the network, and Node.js to the same format. */
export function failureOf(thrown: unknown): S3Failure {
  const error = thrown as {
    name?: string;
    code?: unknown;
    message?: string;
    $metadata?: { httpStatusCode?: number };
    $response?: { statusCode?: number; headers?: Record<string, string> };
  };
  const name = wordOf(error.name ?? 'Error');
  const isPlain = name === 'Error' || name === 'AggregateError' || name === 'TypeError';
  // The SDK also uses the name TimeoutError for broken connections, but leaves their code unchanged.
  const isTimeout = name === 'TimeoutError' && error.code !== 'ETIMEDOUT';
  return {
    name: (isPlain || isTimeout) && typeof error.code === 'string' ? error.code : name,
    message: error.message ?? '',
    status: error.$metadata?.httpStatusCode ?? error.$response?.statusCode ?? null,
    headers: error.$response?.headers ?? {},
  };
}
