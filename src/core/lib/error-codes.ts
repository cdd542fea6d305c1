/**
 * The complete list of error codes. For each one, it says whether it makes sense to retry, and what the error
 * means in a sentence that goes into `docs/errors.md`. The HTTP status codes in the API and the exit codes of
 * the CLI come from tables of type `Record<ErrorCode, number>`, which cannot leave out any code.
 */
export const errorTable = {
  // set-up
  usage: {
    retryable: false,
    about: 'The command line is wrong: a flag, an argument or a combination of them.',
  },
  config_unreadable: { retryable: false, about: 'The configuration file cannot be read.' },
  config_invalid: {
    retryable: false,
    about: 'A setting in the configuration file is invalid.',
  },
  package_missing: {
    retryable: false,
    about: 'A setting needs an optional package that is not installed.',
  },
  secrets_invalid: {
    retryable: false,
    about: 'A secret is missing, empty or invalid, or the secrets directory is unusable.',
  },
  unsafe_permissions: {
    retryable: false,
    about: 'Another user could change a file or directory that the configuration names.',
  },
  reload_refused: {
    retryable: false,
    about: 'Reload failed: the file or a secret is invalid. The current configuration stays active.',
  },

  // the console
  form_expired: {
    retryable: false,
    about: 'A form of the console does not belong to the session.',
  },
  login_refused: {
    retryable: false,
    about: 'An OpenID Connect login was cancelled, denied or invalid.',
  },
  too_many_logins: {
    retryable: true,
    about: 'Too many logins or exchanges of ID tokens have failed.',
  },

  // the audit trail
  audit_unavailable: {
    retryable: true,
    about: 'The audit trail cannot be written.',
  },

  // events
  unreachable: {
    retryable: true,
    about: 'A notifier or span collector cannot be reached or written to.',
  },
  notifier_not_found: { retryable: false, about: 'No notifier of this id is configured.' },
  redelivery_running: {
    retryable: true,
    about: 'The undelivered events are already being sent again.',
  },

  // bundles
  bundle_not_found: { retryable: false, about: 'No bundle was found where one was expected.' },
  invalid_bundle: {
    retryable: false,
    about: 'The manifest is missing or invalid, a file is missing, or a size or digest differs.',
  },
  malformed_archive: { retryable: false, about: 'The upload is not a complete tar archive.' },
  unsafe_archive_entry: {
    retryable: false,
    about: 'The archive contains a link, a device, or an unsafe or duplicate path.',
  },
  upload_too_large: {
    retryable: false,
    about: 'The archive or its content is larger than `max_upload_size`.',
  },
  too_many_files: { retryable: false, about: 'The archive contains more than `max_files` files.' },
  archive_bomb: { retryable: false, about: 'The archive expands far beyond its own size.' },

  files_missing: {
    retryable: false,
    about: 'A partial archive omits files that the daemon does not have.',
  },

  // signatures
  signature_missing: {
    retryable: false,
    about: 'The pipeline requires signed bundles.',
  },
  signature_invalid: {
    retryable: false,
    about: 'The signature is malformed, or of another manifest.',
  },
  signing_key_untrusted: {
    retryable: false,
    about: 'The pipeline does not trust the key of the signature.',
  },
  signature_replayed: {
    retryable: false,
    about: 'The signed bundle is older than the published one.',
  },
  signing_key_invalid: {
    retryable: false,
    about: 'A key cannot be read, or its passphrase is wrong.',
  },

  // storage
  storage_not_found: { retryable: false, about: 'The object, file or root directory does not exist.' },
  storage_exists: {
    retryable: false,
    about: 'The name already exists.',
  },
  storage_conflict: {
    retryable: false,
    about: 'Another program changed the object.',
  },
  storage_denied: { retryable: false, about: 'The storage refused access.' },
  ssh_key_invalid: {
    retryable: false,
    about: 'There is no SSH key to log in with, or the private key cannot be used.',
  },
  storage_full: {
    retryable: true,
    about: 'No space is left, or the quota is exceeded. Nothing was lost.',
  },
  storage_permanent: {
    retryable: false,
    about: 'The storage failed permanently.',
  },
  storage_transient: {
    retryable: true,
    about: 'The storage failed temporarily.',
  },
  storage_unavailable: {
    retryable: true,
    about: 'The directory cannot be created or opened, perhaps because a disk is not mounted.',
  },
  body_mismatch: {
    retryable: false,
    about: 'The bytes read differ from the plan.',
  },

  // publication
  unmanaged_content: {
    retryable: false,
    about: 'The destination has content that waybill does not manage.',
  },
  state_conflict: {
    retryable: false,
    about: 'The catalog of the destination is invalid, or of a newer version.',
  },
  stale_bundle: {
    retryable: false,
    about: 'The bundle is older than the published one.',
  },
  empty_plan: {
    retryable: false,
    about: 'A replacement without outputs would remove everything.',
  },
  catalog_too_large: {
    retryable: false,
    about: 'A bundle path would have too many outputs.',
  },
  not_owned: {
    retryable: false,
    about: 'Another pipeline or destination published the bundle path.',
  },
  not_published: {
    retryable: false,
    about: 'Nothing is published at the bundle path.',
  },
  nested_managed_path: {
    retryable: false,
    about: 'The bundle path is in a release, or `--force` would delete another bundle.',
  },
  bucket_root_protected: {
    retryable: false,
    about: 'A forced replacement would empty the bucket.',
  },
  too_many_removals: {
    retryable: false,
    about: 'More outputs would be removed than `limits.max_removed` allows.',
  },
  plan_invalid: {
    retryable: false,
    about: 'The file of `--plan` is not a plan, or was edited.',
  },
  plan_stale: {
    retryable: false,
    about: 'The configuration, the source or the destination changed after the plan.',
  },
  destination_busy: {
    retryable: true,
    about: 'Another publisher holds the destination.',
  },
  lease_lost: {
    retryable: true,
    about: 'The lease on the destination was lost; nothing was committed.',
  },
  commit_unknown: {
    retryable: true,
    about: 'The result of the commit is unknown. Nothing was deleted.',
  },
  aborted: { retryable: true, about: 'The attempt was stopped.' },
  release_unusable: {
    retryable: false,
    about: 'The release is damaged, unfinished or being removed, or there is no earlier one.',
  },
  release_not_found: { retryable: false, about: 'The bundle path has no release of this id.' },
  channel_not_found: {
    retryable: false,
    about: 'There is no such channel.',
  },
  no_releases: {
    retryable: false,
    about: 'The destination has `layout: in_place`.',
  },
  bundle_path_needed: {
    retryable: false,
    about: 'The destination has releases of several bundle paths.',
  },
  destination_not_found: { retryable: false, about: 'The pipeline has no destination of this id.' },
  destination_unavailable: {
    retryable: true,
    about: 'The destination could not be reached, or did not confirm a change.',
  },
  prune_disabled: {
    retryable: false,
    about: 'Pruning is disabled at the destination.',
  },
  clock_ahead: {
    retryable: false,
    about: 'The clock of this machine is ahead of the clock of the storage.',
  },
  verification_failed: { retryable: false, about: 'Published bytes differ from the catalog.' },

  // weather
  database_unavailable: {
    retryable: true,
    about: 'The weather database does not answer, or is overloaded.',
  },
  schema_mismatch: {
    retryable: false,
    about: 'The weather tables have another shape.',
  },

  template_error: { retryable: false, about: 'The text template of this endpoint failed.' },

  // runs
  worker_failed: {
    retryable: true,
    about: 'The worker thread ended or ran out of memory.',
  },

  cancelled: {
    retryable: false,
    about: 'The run was cancelled.',
  },

  superseded: {
    retryable: false,
    about: 'A newer run replaced this one while it waited for its next try.',
  },

  job_rejected: {
    retryable: false,
    about: 'The job in Redis has no valid signature; it was not run.',
  },
  run_timeout: {
    retryable: false,
    about: 'The run exceeded its `run_timeout`; the message names the step.',
  },
  discovery_timeout: {
    retryable: false,
    about: 'Reading the source exceeded its `discovery_timeout`.',
  },

  // clients of a daemon
  daemon_unreachable: {
    retryable: true,
    about: 'No daemon could be reached at the URL.',
  },
  connection_lost: {
    retryable: true,
    about: 'The connection to the daemon was lost or stalled.',
  },
  tls_failed: {
    retryable: false,
    about: 'The certificate is not trusted, or the server does not use TLS.',
  },
  unexpected_answer: {
    retryable: false,
    about: 'The server is not a waybill daemon, or has another version.',
  },
  run_unfinished: {
    retryable: true,
    about: 'The wait timed out. The run continues.',
  },

  // HTTP
  malformed_request: {
    retryable: false,
    about: 'The request is not valid HTTP.',
  },
  request_timeout: { retryable: true, about: 'The head of the request did not arrive in time.' },
  expectation_failed: {
    retryable: false,
    about: 'The Expect header is not 100-continue.',
  },
  headers_too_large: { retryable: false, about: 'The head of the request exceeds 16 KiB.' },
  unsupported_transfer_coding: {
    retryable: false,
    about: 'The Transfer-Encoding is not chunked.',
  },
  invalid_request: {
    retryable: false,
    about: 'The body or a parameter of the request is invalid for this route.',
  },
  invalid_parameter: {
    retryable: false,
    about: 'Query parameters of a weather read are invalid.',
  },
  unsupported_format: {
    retryable: false,
    about: 'The format is not available.',
  },
  not_found: { retryable: false, about: 'No such route.' },
  method_not_allowed: { retryable: false, about: 'The route does not support this method.' },
  unauthorized: { retryable: false, about: 'The bearer token is missing, malformed or unknown.' },
  token_expired: { retryable: false, about: 'The bearer token has expired.' },
  id_token_refused: {
    retryable: false,
    about: 'The ID token is invalid, was used before, or matches no trusted publisher.',
  },
  issuer_unavailable: {
    retryable: true,
    about: 'The keys of the issuer cannot be fetched.',
  },
  pipeline_not_found: {
    retryable: false,
    about: 'The pipeline does not exist, or accepts no uploads.',
  },
  pipeline_takes_uploads: {
    retryable: false,
    about: 'The pipeline publishes uploads, so it has no source to read.',
  },
  alert_not_found: { retryable: false, about: 'The weather alert does not exist, or was removed.' },
  station_not_found: { retryable: false, about: 'The weather station does not exist.' },
  run_not_found: { retryable: false, about: 'The run does not exist, or its record has expired.' },
  run_not_finished: {
    retryable: true,
    about: 'The run has not ended.',
  },
  bundle_gone: {
    retryable: false,
    about: 'The bundle of the run is no longer staged.',
  },
  run_finished: { retryable: false, about: 'The run has ended.' },
  forbidden: { retryable: false, about: 'The token is not for this pipeline.' },
  insufficient_scope: {
    retryable: false,
    about: 'The token lacks the scope.',
  },
  invalid_idempotency_key: {
    retryable: false,
    about: 'The Idempotency-Key is malformed.',
  },
  unsupported_media_type: {
    retryable: false,
    about: 'The route does not accept the Content-Type, or a Content-Encoding was sent.',
  },
  shutting_down: { retryable: true, about: 'The daemon is stopping.' },
  queue_full: { retryable: true, about: 'All upload slots are in use.' },
  pipeline_full: {
    retryable: true,
    about: 'The pipeline has reached its `max_waiting`.',
  },
  partial_uploads_full: {
    retryable: true,
    about: 'Partial uploads have reached a limit of `server.resumable`.',
  },
  upload_not_found: {
    retryable: false,
    about: 'The partial upload does not exist, or has expired.',
  },
  upload_offset_conflict: {
    retryable: false,
    about: 'The offset is not the end of the partial upload.',
  },
  upload_locked: {
    retryable: true,
    about: 'Another request is sending the partial upload.',
  },
  unsupported_tus_version: {
    retryable: false,
    about: 'The request does not name tus version 1.0.0.',
  },
  queue_unavailable: {
    retryable: true,
    about: 'The queue cannot be reached, or cannot store anything.',
  },
  queue_unusable: {
    retryable: false,
    about:
      'The directory of the embedded queue is in use, damaged, of a newer version, or cannot be written.',
  },
  too_many_streams: {
    retryable: true,
    about: 'Too many concurrent event streams.',
  },
  host_not_allowed: {
    retryable: false,
    about: 'The `Host` header names another host.',
  },
  quota_exceeded: {
    retryable: true,
    about: 'The token or client has reached its quota of uploads or streams.',
  },
  idempotency_in_progress: { retryable: true, about: 'A request with this key is still being received.' },
  idempotency_conflict: {
    retryable: false,
    about: 'This key was used with another manifest, or with other files.',
  },
  server_busy: {
    retryable: true,
    about: 'Request bodies use all of `max_body_memory`, or too many requests wait.',
  },
  upload_timeout: { retryable: true, about: 'The body stalled or took too long.' },
  insufficient_storage: { retryable: true, about: 'The disk of staging or the queue is full.' },
  staging_unavailable: {
    retryable: true,
    about: 'Staging cannot be used.',
  },
  internal_error: {
    retryable: false,
    about: 'A defect in waybill, or a failure it did not foresee; the log has the details.',
  },
} as const satisfies Record<string, { retryable: boolean; about: string }>;

export type ErrorCode = keyof typeof errorTable;
