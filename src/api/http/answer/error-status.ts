import type { ErrorCode } from '../../../core/lib/error-codes.ts';
import type { WaybillError } from '../../../core/lib/errors.ts';

/**
 * The HTTP status for each error code. Errors with status 500 are hidden from clients, who get
 * `internal_error` instead, unless the code is in `disclosed500`.
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
  login_refused: 403,
  too_many_logins: 429,
  audit_unavailable: 503,
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

  signature_missing: 422,
  signature_invalid: 422,
  signing_key_untrusted: 422,
  signature_replayed: 500,
  signing_key_invalid: 500,

  storage_not_found: 500,
  storage_exists: 500,
  storage_conflict: 500,
  storage_denied: 500,
  storage_full: 500,
  storage_permanent: 500,
  storage_transient: 500,
  storage_unavailable: 500,
  ssh_key_invalid: 500,
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
  id_token_refused: 400,
  issuer_unavailable: 503,
  pipeline_not_found: 404,
  pipeline_takes_uploads: 409,
  alert_not_found: 404,
  station_not_found: 404,
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
 * Server errors whose code is sent to clients. Their messages only say which part of the service is broken.
 */
const disclosed500: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['schema_mismatch', 'template_error']);

/** Reports whether clients get `internal_error` instead of this code. */
export function isConcealed(code: ErrorCode): boolean {
  return statusOf[code] === 500 && !disclosed500.has(code);
}

/** The default `Retry-After` for temporary errors, in seconds. An error may carry a better estimate. */
export const defaultRetryAfter: Partial<Record<ErrorCode, number>> = {
  shutting_down: 30,
  too_many_logins: 60,
  issuer_unavailable: 60,
  audit_unavailable: 10,
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

/** Returns the `Retry-After` of an error in seconds, or undefined if it does not help to try again. */
export function retryAfterOf({ code, retryAfterSeconds }: WaybillError): number | undefined {
  return retryAfterSeconds ?? defaultRetryAfter[code];
}
