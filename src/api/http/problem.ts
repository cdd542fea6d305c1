import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { asWaybillError, type WaybillError, withoutPaths } from '../../core/lib/errors.ts';
import { errorTable, type ErrorCode } from '../../core/lib/error-codes.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { prefersPage } from './answer/negotiate.ts';
import { problemBody, problemMediaTypes, type Problem } from './answer/problem-document.ts';
import { endAfterDrain, hasPendingBody } from './request/drain-request.ts';
import { requestContext, type ProblemForm } from './request/request-context.ts';

/**
 * The status of every code. A code with status 500 is no business of the client's and is answered as
 * `internal_error`, unless `disclosed500` has it.
 */
export const statusOf: Record<ErrorCode, number> = {
  usage: 500,
  config_unreadable: 500,
  package_missing: 500,
  config_invalid: 500,
  secrets_invalid: 500,
  unsafe_permissions: 500,
  reload_refused: 422,
  form_expired: 403,
  too_many_logins: 429,
  unreachable: 500,
  notifier_not_found: 404,
  redelivery_running: 409,

  bundle_not_found: 500,
  invalid_bundle: 422,
  malformed_archive: 400,
  unsafe_archive_entry: 422,
  upload_too_large: 413,
  too_many_files: 413,
  archive_bomb: 413,
  files_missing: 409,

  storage_not_found: 500,
  storage_exists: 500,
  storage_conflict: 500,
  storage_denied: 500,
  storage_full: 500,
  storage_permanent: 500,
  storage_transient: 500,
  body_mismatch: 500,

  unmanaged_content: 500,
  state_conflict: 409,
  stale_bundle: 500,
  empty_plan: 500,
  catalog_too_large: 500,
  not_owned: 500,
  not_published: 404,
  nested_managed_path: 500,
  bucket_root_protected: 500,
  too_many_removals: 500,
  plan_invalid: 500,
  plan_stale: 500,
  destination_busy: 503,
  lease_lost: 500,
  commit_unknown: 500,
  aborted: 500,
  release_unusable: 409,
  release_not_found: 404,
  channel_not_found: 404,
  no_releases: 409,
  bundle_path_needed: 400,
  destination_not_found: 404,
  destination_unavailable: 503,
  prune_disabled: 500,
  clock_ahead: 500,
  verification_failed: 500,

  database_unavailable: 503,
  schema_mismatch: 500,
  template_error: 500,
  worker_failed: 500,
  cancelled: 500,
  superseded: 500,
  job_rejected: 500,
  run_timeout: 500,
  discovery_timeout: 500,

  daemon_unreachable: 500,
  connection_lost: 500,
  tls_failed: 500,
  unexpected_answer: 500,
  run_unfinished: 500,

  malformed_request: 400,
  request_timeout: 408,
  expectation_failed: 417,
  headers_too_large: 431,
  unsupported_transfer_coding: 501,
  invalid_request: 400,
  invalid_parameter: 400,
  unsupported_format: 406,
  not_found: 404,
  method_not_allowed: 405,
  unauthorized: 401,
  token_expired: 401,
  pipeline_not_found: 404,
  pipeline_takes_uploads: 409,
  alert_not_found: 404,
  run_not_found: 404,
  run_finished: 409,
  run_not_finished: 409,
  bundle_gone: 410,
  forbidden: 403,
  insufficient_scope: 403,
  invalid_idempotency_key: 400,
  unsupported_media_type: 415,
  shutting_down: 503,
  queue_full: 503,
  pipeline_full: 429,
  partial_uploads_full: 503,
  upload_not_found: 404,
  upload_offset_conflict: 409,
  upload_locked: 423,
  unsupported_tus_version: 412,
  queue_unavailable: 503,
  queue_unusable: 500,
  server_busy: 503,
  too_many_streams: 503,
  quota_exceeded: 429,
  host_not_allowed: 421,
  idempotency_in_progress: 409,
  idempotency_conflict: 409,
  upload_timeout: 408,
  insufficient_storage: 507,
  staging_unavailable: 503,
  internal_error: 500,
};

/**
 * Faults of ours that are disclosed by their own code: their messages say which part of the service is broken
 * and no more.
 */
const disclosed500: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['schema_mismatch', 'template_error']);

/** Whether the client gets `internal_error` instead of the code. */
export function isConcealed(code: ErrorCode): boolean {
  return statusOf[code] === 500 && !disclosed500.has(code);
}

/** `Retry-After` in seconds, for errors that pass by themselves and do not say when. */
export const retryAfterSeconds: Partial<Record<ErrorCode, number>> = {
  shutting_down: 30,
  too_many_logins: 60,
  queue_full: 10,
  pipeline_full: 10,
  partial_uploads_full: 60,
  upload_locked: 5,
  queue_unavailable: 10,
  server_busy: 5,
  too_many_streams: 10,
  quota_exceeded: 10,
  idempotency_in_progress: 5,
  insufficient_storage: 60,
  staging_unavailable: 10,
  database_unavailable: 5,
  destination_busy: 10,
  destination_unavailable: 10,
};

/**
 * The problem document of an error: its message and hint, or only `internal_error` if concealed. A hint that
 * names a place on this machine is for its operator, and does so only where an operator asks. Pure.
 */
export function problemOf(error: WaybillError, requestId: string): Problem {
  const status = statusOf[error.code];
  const code: ErrorCode = isConcealed(error.code) ? 'internal_error' : error.code;
  const hint =
    isConcealed(error.code) || error.hint === undefined ? undefined : hintFor(error.code, error.hint);
  const detail = isConcealed(error.code) ? errorTable.internal_error.about : sentences(error.message, hint);
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    ...(hint === undefined ? {} : { hint }),
    instance: `urn:uuid:${requestId}`,
    code,
    retryable: errorTable[code].retryable,
    ...(!isConcealed(error.code) && error.findings.length > 0 ? { findings: error.findings } : {}),
  };
}

/** Makes a page of a problem, and the headers that the page needs. */
export type ProblemPage = (problem: Problem) => { html: string; headers: Readonly<Record<string, string>> };

/** What refusals are made with. */
export interface ProblemPorts {
  clock: Clock;
  /** Without it people get JSON, too. */
  problemPage?: ProblemPage;
}

/**
 * Answers a request with a problem document, in the form that its route has chosen; without one it is a page
 * for whoever takes HTML rather than JSON, and JSON for everybody else. If the client is still
 * sending, the answer goes out at once and the connection closes after a bounded drain of the body: closing
 * it with unread bytes would make the client's system discard the answer.
 */
export async function sendProblem(
  req: IncomingMessage,
  res: ServerResponse,
  thrown: unknown,
  { clock, problemPage }: ProblemPorts,
): Promise<void> {
  const context = requestContext(req);
  const error = asWaybillError(thrown);
  // What was answered first counts: its connection may break after that.
  context.fields['code'] ??= error.code;
  if (hasReason.has(error.code)) context.fields['reason'] = reasonOf(error);
  if (statusOf[error.code] === 500 || error.code === 'staging_unavailable') context.failure = thrown;
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const problem = { ...problemOf(error, context.id), ...context.problemMembers };
  const retryAfter = error.retryAfterSeconds ?? retryAfterSeconds[problem.code];
  if (retryAfter !== undefined) res.setHeader('Retry-After', retryAfter);
  const form = context.problemForm ?? (prefersPage(req.headers.accept) ? 'html' : 'json');
  if (context.problemForm !== undefined || problemPage !== undefined) res.appendHeader('Vary', 'Accept');
  const body = putOn(res, problem, form, problemPage);
  res.statusCode = problem.status;
  if (hasPendingBody(req)) await endAfterDrain(req, res, body, clock);
  else res.end(body);
}

/** Sets the headers that belong to the body; returns that. */
function putOn(
  res: ServerResponse,
  problem: Problem,
  form: ProblemForm,
  problemPage: ProblemPage | undefined,
): Buffer {
  const isPage = form === 'html' && problemPage !== undefined;
  const made = isPage ? problemPage(problem) : null;
  const written = form === 'html' ? 'json' : form;
  const body = made === null ? problemBody(problem, written) : Buffer.from(made.html);
  res.setHeader('Content-Type', problemMediaTypes[isPage ? 'html' : written]);
  res.setHeader('Content-Length', body.length);
  for (const [name, value] of Object.entries(made?.headers ?? {})) res.setHeader(name, value);
  return body;
}

/** Refusals whose cause is the operator's business and is not told to the client. */
const hasReason: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['database_unavailable', 'unsupported_format']);

/** What went wrong and why, for the log: it may name what no client is told. Pure. */
export function reasonOf(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${reasonOf(error.cause)}` : error.message;
}

/** Whose clients have the admin token, and need the names of the files that they are to mend. */
const operatorsCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['reload_refused']);

function hintFor(code: ErrorCode, hint: string): string {
  return operatorsCodes.has(code) ? hint : withoutPaths(hint);
}

function sentences(message: string, hint: string | undefined): string {
  return hint === undefined ? message : `${message}; ${hint}`;
}
