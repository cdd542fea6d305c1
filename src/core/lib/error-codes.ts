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
    about: 'A setting needs an optional package, such as LMDB, that is not installed.',
  },
  secrets_invalid: {
    retryable: false,
    about:
      'A secret is missing or empty, or the secrets directory is missing, unreadable or has an invalid file name.',
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
    about: 'A form of the console does not belong to the session, or came from another site.',
  },
  login_refused: {
    retryable: false,
    about: 'A login to the console with an OpenID Connect issuer was cancelled, denied or invalid.',
  },
  too_many_logins: {
    retryable: true,
    about: 'Too many logins to the console, or exchanges of ID tokens, have failed.',
  },

  // the audit trail
  audit_unavailable: {
    retryable: true,
    about: 'The audit trail cannot be written, so acts that need a record are refused.',
  },

  // events
  unreachable: {
    retryable: true,
    about: 'A notifier or span collector of the configuration cannot be reached or written to.',
  },
  notifier_not_found: { retryable: false, about: 'No notifier of this id is configured.' },
  redelivery_running: {
    retryable: true,
    about: 'The undelivered events of the notifier are already being sent again.',
  },

  // bundles
  bundle_not_found: { retryable: false, about: 'No bundle was found where one was expected.' },
  invalid_bundle: {
    retryable: false,
    about:
      'The bundle breaks a rule: its manifest is missing or invalid, a file is missing, or a size or digest differs.',
  },
  malformed_archive: { retryable: false, about: 'The upload is not a tar archive, or it is cut short.' },
  unsafe_archive_entry: {
    retryable: false,
    about: 'The archive contains a link, a device, or an unsafe or duplicate path.',
  },
  upload_too_large: {
    retryable: false,
    about: 'The archive or its content is larger than the source allows.',
  },
  too_many_files: { retryable: false, about: 'The archive contains more files than the source allows.' },
  archive_bomb: { retryable: false, about: 'The archive expands far beyond its own size.' },

  files_missing: {
    retryable: false,
    about:
      'A partial archive omits files that the daemon does not keep for the pipeline, or no longer keeps.',
  },

  // signatures
  signature_missing: {
    retryable: false,
    about: 'The pipeline requires signed bundles, and the bundle has no `manifest.json.minisig`.',
  },
  signature_invalid: {
    retryable: false,
    about: 'The signature of the bundle is malformed, or was made for another manifest.',
  },
  signing_key_untrusted: {
    retryable: false,
    about: 'The bundle is signed with a key that the pipeline does not trust, or no longer trusts.',
  },
  signature_replayed: {
    retryable: false,
    about: 'The signed bundle is older than the published one, so it may be a replay.',
  },
  signing_key_invalid: {
    retryable: false,
    about: 'A key cannot be read, is not a key of minisign, or its passphrase is wrong.',
  },

  // storage
  storage_not_found: { retryable: false, about: 'The object, file or root directory does not exist.' },
  storage_exists: {
    retryable: false,
    about: 'The name already exists, so it could not be created exclusively.',
  },
  storage_conflict: {
    retryable: false,
    about: 'A conditional write found a version other than the expected one.',
  },
  storage_denied: { retryable: false, about: 'The storage refused access.' },
  storage_full: {
    retryable: true,
    about: 'No space is left on the storage, or the quota is exceeded. Nothing was lost.',
  },
  storage_permanent: {
    retryable: false,
    about: 'The storage failed, and a retry does not help.',
  },
  storage_transient: {
    retryable: true,
    about: 'The storage failed temporarily: a lost connection, a timeout, a busy server.',
  },
  body_mismatch: {
    retryable: false,
    about: 'The size or digest of the bytes read differs from the plan.',
  },

  // publication
  unmanaged_content: {
    retryable: false,
    about: 'The destination has content that waybill does not manage, or a planned path is occupied.',
  },
  state_conflict: {
    retryable: false,
    about: 'The state of the destination is invalid, or was written by a newer version of waybill.',
  },
  stale_bundle: {
    retryable: false,
    about: 'The bundle is older than the one that is published, and the destination has `stale: refuse`.',
  },
  empty_plan: {
    retryable: false,
    about: 'A replacement without outputs would remove everything that was published.',
  },
  catalog_too_large: {
    retryable: false,
    about: 'The catalog of a bundle path would exceed its maximum size: too many outputs in one place.',
  },
  not_owned: {
    retryable: false,
    about: 'The bundle path was published by another pipeline or destination; nothing was removed.',
  },
  not_published: {
    retryable: false,
    about: 'The bundle path has no catalog: nothing is published there.',
  },
  nested_managed_path: {
    retryable: false,
    about:
      'The bundle path is in a release, or `--force` would delete another bundle path or files of a catalog above.',
  },
  bucket_root_protected: {
    retryable: false,
    about:
      'A forced replacement at the root of a bucket would empty it. It requires `allow_bucket_root: true`.',
  },
  too_many_removals: {
    retryable: false,
    about: 'More published outputs would be removed than `limits.max_removed` allows; nothing was changed.',
  },
  plan_invalid: {
    retryable: false,
    about:
      'The file given with `--plan` is not a plan, was edited, or has another version. Nothing was published.',
  },
  plan_stale: {
    retryable: false,
    about: 'Since the plan was made, the configuration, the source or the destination changed.',
  },
  destination_busy: {
    retryable: true,
    about: 'Another publisher holds the destination and did not finish in time.',
  },
  lease_lost: {
    retryable: true,
    about: 'The lease on the destination was lost in the middle of the attempt; nothing was committed.',
  },
  commit_unknown: {
    retryable: true,
    about: 'The result of the commit is unknown. Nothing was deleted; the next run decides.',
  },
  aborted: { retryable: true, about: 'The attempt was stopped.' },
  release_unusable: {
    retryable: false,
    about:
      'The release is missing, damaged, unfinished or being removed, or there is no earlier one. The current release stays current.',
  },
  release_not_found: { retryable: false, about: 'The bundle path has no release of this id.' },
  channel_not_found: {
    retryable: false,
    about: 'No destination has this channel, or the bundle path has none of this name.',
  },
  no_releases: {
    retryable: false,
    about: 'The destination is published in place (`layout: in_place`) and has no releases.',
  },
  bundle_path_needed: {
    retryable: false,
    about: 'The destination has releases of several bundle paths, and the request names none.',
  },
  destination_not_found: { retryable: false, about: 'The pipeline has no destination of this id.' },
  destination_unavailable: {
    retryable: true,
    about: 'The destination could not be reached, or did not confirm a change. The log has the reason.',
  },
  prune_disabled: {
    retryable: false,
    about: 'Pruning requires `retention.prune.enabled: true` at the destination.',
  },
  clock_ahead: {
    retryable: false,
    about: 'The clock of this machine is ahead of the clock of the storage, so ages are unknown.',
  },
  verification_failed: { retryable: false, about: 'Published bytes differ from what the catalog records.' },

  // weather
  database_unavailable: {
    retryable: true,
    about: 'The weather database cannot be reached, is overloaded, or did not answer in time.',
  },
  schema_mismatch: {
    retryable: false,
    about: 'The weather tables do not have the shape of the contract (`docs/weather-contract.md`).',
  },

  template_error: { retryable: false, about: 'The text template of this endpoint failed.' },

  // runs
  worker_failed: {
    retryable: true,
    about: 'The worker thread ended, ran out of memory or did not answer while it published.',
  },

  cancelled: {
    retryable: false,
    about: 'The run was cancelled. The next run of the bundle completes an interrupted attempt.',
  },

  superseded: {
    retryable: false,
    about: 'A newer run of the same bundle path was accepted while this run waited for its next try.',
  },

  job_rejected: {
    retryable: false,
    about:
      'The job in Redis is not signed with a key of `server.queue.signing_key_envs`, or was changed; it was not run.',
  },
  run_timeout: {
    retryable: false,
    about: 'The run did not end within its `run_timeout`; the message names the step that it had reached.',
  },
  discovery_timeout: {
    retryable: false,
    about: 'The source was not read within its `discovery_timeout`; nothing was published.',
  },

  // clients of a daemon
  daemon_unreachable: {
    retryable: true,
    about: 'No daemon could be reached at the host name, address or port of the URL.',
  },
  connection_lost: {
    retryable: true,
    about: 'The connection to the daemon was lost or stalled, or a proxy could not reach the daemon.',
  },
  tls_failed: {
    retryable: false,
    about: 'The certificate of the daemon is not trusted, or the server at the URL does not use TLS.',
  },
  unexpected_answer: {
    retryable: false,
    about: 'The server at the URL is not a waybill daemon, or has another version.',
  },
  run_unfinished: {
    retryable: true,
    about: 'The run had not ended when the wait timed out. It continues.',
  },

  // HTTP
  malformed_request: {
    retryable: false,
    about:
      'The request is not valid HTTP: its framing or a header is invalid, or it does not have exactly one Host.',
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
    about: 'Query parameters of a weather read are unknown, repeated, empty, malformed or out of range.',
  },
  unsupported_format: {
    retryable: false,
    about: 'The requested format is not available, or the template of the text form cannot be read.',
  },
  not_found: { retryable: false, about: 'No such route.' },
  method_not_allowed: { retryable: false, about: 'The route does not support this method.' },
  unauthorized: { retryable: false, about: 'The bearer token is missing, malformed or unknown.' },
  token_expired: { retryable: false, about: 'The bearer token has expired.' },
  id_token_refused: {
    retryable: false,
    about: 'The ID token is invalid, expired, was used before, or matches no entry of `trusted_publishers`.',
  },
  issuer_unavailable: {
    retryable: true,
    about: 'The keys of the issuer of an ID token cannot be fetched.',
  },
  pipeline_not_found: {
    retryable: false,
    about: 'The pipeline does not exist, or accepts no uploads.',
  },
  pipeline_takes_uploads: {
    retryable: false,
    about: 'The pipeline publishes uploads and has no source that a run could read.',
  },
  alert_not_found: { retryable: false, about: 'The weather alert does not exist, or the feeder removed it.' },
  run_not_found: { retryable: false, about: 'The run does not exist, or its record has expired.' },
  run_not_finished: {
    retryable: true,
    about: 'The run has not ended. Only a run that has ended can be repeated.',
  },
  bundle_gone: {
    retryable: false,
    about: 'The bundle of the run is no longer staged, so the run cannot be repeated.',
  },
  run_finished: { retryable: false, about: 'The run has ended, so there is nothing to cancel.' },
  forbidden: { retryable: false, about: 'The token is not for this pipeline.' },
  insufficient_scope: {
    retryable: false,
    about: 'The token is for this pipeline, but its `scopes` do not allow the request.',
  },
  invalid_idempotency_key: {
    retryable: false,
    about: 'The Idempotency-Key is not 1 to 255 printable ASCII characters.',
  },
  unsupported_media_type: {
    retryable: false,
    about: 'The Content-Type is not one of the archive types, or a Content-Encoding was sent.',
  },
  shutting_down: { retryable: true, about: 'The daemon is shutting down and accepts no new uploads.' },
  queue_full: { retryable: true, about: 'All upload slots are in use.' },
  pipeline_full: {
    retryable: true,
    about: 'The pipeline has reached its `max_waiting` uploads and runs.',
  },
  partial_uploads_full: {
    retryable: true,
    about: 'Too many partial uploads are open, or they use all bytes that `server.resumable` allows.',
  },
  upload_not_found: {
    retryable: false,
    about:
      'The partial upload does not exist: it was never created here, was refused or cancelled, or has expired.',
  },
  upload_offset_conflict: {
    retryable: false,
    about: 'The offset of the request is not the end of the partial upload. HEAD returns the offset.',
  },
  upload_locked: {
    retryable: true,
    about: 'Another request is sending the partial upload, or it is being queued.',
  },
  unsupported_tus_version: {
    retryable: false,
    about: 'The request does not name the supported version of the tus protocol, 1.0.0.',
  },
  queue_unavailable: {
    retryable: true,
    about:
      'The queue (Redis, or the disk of an embedded one) cannot be reached or cannot store anything now.',
  },
  queue_unusable: {
    retryable: false,
    about:
      'The directory of the embedded queue is in use by another daemon, damaged, of a newer waybill, or cannot be written.',
  },
  too_many_streams: {
    retryable: true,
    about: 'Too many concurrent event streams.',
  },
  host_not_allowed: {
    retryable: false,
    about: 'The `Host` header names a host that server.http.allowed_hosts does not list.',
  },
  quota_exceeded: {
    retryable: true,
    about: 'The token or client has reached its quota of concurrent bodies, partial uploads or streams.',
  },
  idempotency_in_progress: { retryable: true, about: 'A request with this key is still being staged.' },
  idempotency_conflict: {
    retryable: false,
    about: 'This key was used with another manifest, or with other files.',
  },
  server_busy: {
    retryable: true,
    about: 'Request bodies use all memory of `max_body_memory`, or too many requests wait for a thread.',
  },
  upload_timeout: { retryable: true, about: 'The body stalled or took too long.' },
  insufficient_storage: { retryable: true, about: 'The disk of staging, or of the queue, is full.' },
  staging_unavailable: {
    retryable: true,
    about: 'Uploads cannot be staged: the staging directory, or shared staging, cannot be used.',
  },
  internal_error: {
    retryable: false,
    about: 'A defect in waybill, or a failure it did not foresee; the log has the details.',
  },
} as const satisfies Record<string, { retryable: boolean; about: string }>;

export type ErrorCode = keyof typeof errorTable;
