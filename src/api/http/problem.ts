import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { asWaybillError, errorTable, type ErrorCode, type WaybillError } from '../../core/errors.ts';
import type { Finding } from '../../core/finding.ts';
import { hasPendingBody, lingeringEnd } from './drain-request.ts';
import { requestContext } from './request-context.ts';

/**
 * The status of every code. 500 also means: nothing of it is the client's business, so it is answered as
 * `internal_error`, but for `told500`.
 */
export const statusOf: Record<ErrorCode, number> = {
  usage: 500,
  config_unreadable: 500,
  config_invalid: 500,
  secrets_invalid: 500,

  bundle_not_found: 500,
  invalid_bundle: 422,
  malformed_archive: 400,
  unsafe_archive_entry: 422,
  upload_too_large: 413,
  too_many_files: 413,
  archive_bomb: 413,

  storage_not_found: 500,
  storage_exists: 500,
  storage_conflict: 500,
  storage_denied: 500,
  storage_full: 500,
  storage_permanent: 500,
  storage_transient: 500,
  body_mismatch: 500,

  unmanaged_content: 500,
  state_conflict: 500,
  empty_plan: 500,
  nested_managed_path: 500,
  bucket_root_protected: 500,
  destination_busy: 500,
  lease_lost: 500,
  commit_unknown: 500,
  aborted: 500,
  prune_disabled: 500,
  verification_failed: 500,

  database_unavailable: 503,
  schema_mismatch: 500,
  template_error: 500,
  worker_failed: 500,

  invalid_request: 400,
  invalid_parameter: 400,
  unsupported_format: 406,
  not_found: 404,
  method_not_allowed: 405,
  unauthorized: 401,
  pipeline_not_found: 404,
  pipeline_takes_uploads: 409,
  run_not_found: 404,
  forbidden: 403,
  invalid_idempotency_key: 400,
  unsupported_media_type: 415,
  shutting_down: 503,
  queue_full: 503,
  queue_unavailable: 503,
  idempotency_in_progress: 409,
  idempotency_conflict: 409,
  upload_timeout: 408,
  insufficient_storage: 507,
  internal_error: 500,
};

/**
 * Faults of ours that are told by their own name: they tell which part of the service is out of order, and
 * their sentences hold no more.
 */
const told500: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['schema_mismatch', 'template_error']);

/** Whether a client is told no more than `internal_error`. */
export function isConcealed(code: ErrorCode): boolean {
  return statusOf[code] === 500 && !told500.has(code);
}

/** Seconds after which trying again makes sense, for the codes where the client cannot know. */
export const retryAfterSeconds: Partial<Record<ErrorCode, number>> = {
  shutting_down: 30,
  queue_full: 10,
  queue_unavailable: 10,
  idempotency_in_progress: 5,
  insufficient_storage: 60,
  database_unavailable: 5,
};

/**
 * An RFC 9457 problem document. `type` is `about:blank`, so `title` is the status phrase and `code` tells
 * what happened.
 */
export interface Problem {
  type: 'about:blank';
  title: string;
  status: number;
  detail: string;
  /** The request's id, as in the log. */
  instance: string;
  code: ErrorCode;
  retryable: boolean;
  /** Every single thing that is wrong with the upload, where there can be several. */
  findings?: readonly Finding[];
}

/**
 * What a client is told of an error: its sentence and its hint, or, where the fault is ours, only that. Pure.
 */
export function problemOf(error: WaybillError, requestId: string): Problem {
  const status = statusOf[error.code];
  const code: ErrorCode = isConcealed(error.code) ? 'internal_error' : error.code;
  const detail = isConcealed(error.code)
    ? errorTable.internal_error.about
    : sentences(error.message, error.hint);
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    instance: `urn:uuid:${requestId}`,
    code,
    retryable: errorTable[code].retryable,
    ...(!isConcealed(error.code) && error.findings.length > 0 ? { findings: error.findings } : {}),
  };
}

/**
 * Answers a request with a problem. Where the client is still sending, the answer goes out at once, and the
 * connection is closed only after what comes has been read for a while: closing it on unread bytes would make
 * the client's system throw the answer away.
 */
export async function sendProblem(req: IncomingMessage, res: ServerResponse, thrown: unknown): Promise<void> {
  const context = requestContext(req);
  const error = asWaybillError(thrown);
  context.fields['code'] = error.code;
  if (statusOf[error.code] === 500) context.failure = thrown;
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const problem = problemOf(error, context.id);
  const retryAfter = retryAfterSeconds[problem.code];
  if (retryAfter !== undefined) res.setHeader('Retry-After', retryAfter);
  const body = Buffer.from(JSON.stringify(problem));
  res.statusCode = problem.status;
  res.setHeader('Content-Type', 'application/problem+json');
  res.setHeader('Content-Length', body.length);
  if (hasPendingBody(req)) await lingeringEnd(req, res, body);
  else res.end(body);
}

function sentences(message: string, hint: string | undefined): string {
  return hint === undefined ? message : `${message}; ${hint}`;
}
