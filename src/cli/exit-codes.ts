import type { ErrorCode } from '../core/lib/error-codes.ts';

/** Errors of usage, configuration or secrets, and of the names that the user gave. */
const ofUsage: readonly ErrorCode[] = [
  'usage',
  'config_unreadable',
  'package_missing',
  'config_invalid',
  'secrets_invalid',
  'unsafe_permissions',
  'reload_refused',
  'form_expired',
  'notifier_not_found',
  'signing_key_invalid',
  'not_published',
  'plan_invalid',
  'plan_stale',
  'release_not_found',
  'channel_not_found',
  'no_releases',
  'bundle_path_needed',
  'destination_not_found',
  'prune_disabled',
  'daemon_unreachable',
  'tls_failed',
  'unexpected_answer',
  'not_found',
  'unauthorized',
  'token_expired',
  'id_token_refused',
  'pipeline_not_found',
  'forbidden',
  'insufficient_scope',
  'queue_unusable',
];

/** 0: done. 1: something failed (a destination, a validation). 2: usage, configuration or secrets. */
export function exitCodeFor(code: ErrorCode): 1 | 2 {
  return ofUsage.includes(code) ? 2 : 1;
}
