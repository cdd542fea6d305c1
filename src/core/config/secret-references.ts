import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { Secrets } from '../lib/secrets.ts';
import { isMistyped } from '../lib/token.ts';
import { type NotifierConfig, sinkKindOf } from '../notify/sink-kinds.ts';
import { backendOf, type DestinationLocation } from '../storage/backends.ts';
import type { Config, PipelineConfig, SourceConfig } from './config.ts';

interface SecretReference {
  name: string;
  /** The part of the configuration that needs it, for messages: `destination "cdn" of pipeline "maps"`. */
  neededBy: string;
}

interface ReferenceOptions {
  /** Only these pipelines; default: all of them. */
  pipelineIds?: readonly string[];
  /** Include the secrets of the API: upload tokens for these pipelines, and the metrics token. */
  uploadTokens?: boolean;
  /** Include the secrets of the queue, which only the daemon needs. */
  queue?: boolean;
  /** Include the secrets of these pipelines' notifiers, for commands that publish or prune. */
  notifiers?: boolean;
  /** Include the secrets of the span collector, for the daemon and for commands that publish. */
  tracing?: boolean;
  /** Include the URLs of the weather databases, which only the weather reader needs. */
  databases?: boolean;
  /** Include the keys that outputs are signed with, for the daemon and for commands that publish. */
  signing?: boolean;
}

/**
 * Returns all secrets that the pipelines need, in the order of the configuration. A secret that is used twice
 * is in the list twice.
 */
export function referencedSecrets(config: Config, options: ReferenceOptions = {}): SecretReference[] {
  const { pipelineIds, uploadTokens = false, queue = false, notifiers = false } = options;
  const { tracing = false, databases = false, signing = false } = options;
  const chosen = config.pipelines.filter(({ id }) => pipelineIds?.includes(id) ?? true);
  const references = chosen.flatMap(({ id, source, destinations }) => [
    ...locationSecrets(source, `the source of pipeline "${id}"`),
    ...destinations.flatMap((destination) =>
      locationSecrets(destination.location, `destination "${destination.id}" of pipeline "${id}"`),
    ),
  ]);
  if (signing) references.push(...chosen.flatMap(signingSecrets));
  if (uploadTokens)
    for (const token of config.uploadTokens)
      if (pipelineIds === undefined || token.pipelines.some((id) => pipelineIds.includes(id)))
        references.push({ name: token.valueEnv, neededBy: `upload token "${token.id}"` });
  const { enabled, tokenEnv } = config.server.metrics;
  if (uploadTokens && enabled && tokenEnv !== null)
    references.push({ name: tokenEnv, neededBy: 'server.metrics' });
  const { enabled: hasConsole, sessionKeyEnv, login } = config.server.console;
  if (uploadTokens && hasConsole && sessionKeyEnv !== null)
    references.push({ name: sessionKeyEnv, neededBy: 'server.console' });
  if (uploadTokens && hasConsole && login !== null && login.clientSecretEnv !== null)
    references.push({ name: login.clientSecretEnv, neededBy: 'server.console.login' });
  if (queue && config.server.queue.driver === 'bullmq')
    for (const name of [config.server.queue.redisUrlEnv, ...config.server.queue.signingKeyEnvs])
      references.push({ name, neededBy: 'server.queue' });
  if (queue && config.server.staging.shared !== null)
    references.push(...locationSecrets(config.server.staging.shared, 'server.staging'));
  if (queue && uploadTokens && config.server.adminTokenEnv !== null)
    references.push({ name: config.server.adminTokenEnv, neededBy: 'server.admin_token_env' });
  if (uploadTokens && config.trustedPublishers.length > 0 && config.server.tokenKeysEnv !== null)
    references.push({ name: config.server.tokenKeysEnv, neededBy: 'server.token_keys_env' });
  if (notifiers)
    for (const notifier of notifiersOf(config, pipelineIds)) references.push(...notifierSecrets(notifier));
  if (tracing && config.tracing !== null && config.tracing.headersEnv !== null)
    references.push({ name: config.tracing.headersEnv, neededBy: 'tracing' });
  if (databases)
    for (const database of config.databases)
      if (database.driver === 'postgres')
        references.push({ name: database.urlEnv, neededBy: `database "${database.name}"` });
  return references;
}

/**
 * Returns the notifiers that at least one of these pipelines uses. Without pipelines, returns all notifiers.
 */
export function notifiersOf(config: Config, pipelineIds?: readonly string[]): NotifierConfig[] {
  return config.notifiers.filter(
    ({ pipelines }) => pipelines?.some((id) => pipelineIds?.includes(id) ?? true) ?? true,
  );
}

/**
 * Returns the value of each secret that the configuration refers to, so that they can be kept out of the log.
 */
export function secretValues(config: Config, secrets: Secrets): string[] {
  const all = { uploadTokens: true, queue: true, notifiers: true, tracing: true, signing: true };
  const references = referencedSecrets(config, all);
  return references.flatMap(({ name }) => secrets.get(name) ?? []);
}

/**
 * Throws a `secrets_invalid` error that lists all secrets that are missing or empty. Call this before
 * accessing any storage.
 */
export function requireSecrets(secrets: Secrets, references: readonly SecretReference[]): void {
  const missing = references.filter(({ name }) => secrets.get(name) === undefined);
  if (missing.length === 0) return;
  const names = [...new Set(missing.map(({ name }) => name))];
  throw new WaybillError(
    'secrets_invalid',
    `${names.length === 1 ? 'a secret is' : `${names.length} secrets are`} missing or empty: ${missing.map(({ name, neededBy }) => `${name} (needed by ${neededBy})`).join(', ')}`,
    {
      hint: 'set environment variables of these names, or put the values in files of these names in secrets.directory',
      findings: missing.map(({ name, neededBy }) =>
        finding('error', 'secret_missing', `the secret ${name}, needed by ${neededBy}, is missing or empty`),
      ),
    },
  );
}

function signingSecrets({ id, destinations }: PipelineConfig): SecretReference[] {
  return destinations.flatMap(({ id: destinationId, outputs: { signature = null } }) => {
    const neededBy = `destination "${destinationId}" of pipeline "${id}"`;
    return signature === null ? [] : [{ name: signature.keyEnv, neededBy }];
  });
}

function locationSecrets(location: SourceConfig | DestinationLocation, neededBy: string): SecretReference[] {
  if (location.backend === 'http_upload') return [];
  return backendOf(location)
    .secrets(location)
    .map((name) => ({ name, neededBy }));
}

function notifierSecrets(notifier: NotifierConfig): SecretReference[] {
  const neededBy = `notifier "${notifier.id}"`;
  return sinkKindOf(notifier)
    .secrets(notifier)
    .map((name) => ({ name, neededBy }));
}

/**
 * The minimum length of a token, in characters. If it can be guessed, anyone can publish, and shorter tokens
 * are often words. `openssl rand -base64 18` prints 24 characters.
 */
export const minCharacters = 24;

/**
 * Returns an error for each token of a producer or the administrator that has a typo, or is short enough to
 * guess. A `sha256:` value is not checked, because it only contains a digest. Missing tokens are reported
 * elsewhere. Findings never include the token.
 */
function weakTokens({ uploadTokens, server }: TokenSettings, secrets: Pick<Secrets, 'get'>): Finding[] {
  const { adminTokenEnv } = server;
  const named = [
    ...uploadTokens.map(({ id, valueEnv }) => ({ name: `upload token "${id}"`, valueEnv })),
    ...(adminTokenEnv === null ? [] : [{ name: 'server.admin_token_env', valueEnv: adminTokenEnv }]),
  ];
  return named.flatMap(({ name, valueEnv }) => {
    const value = secrets.get(valueEnv);
    if (value === undefined || value.startsWith('sha256:')) return [];
    if (isMistyped(value)) {
      const mistyped = `the value of ${valueEnv} (${name}) is incomplete or mistyped: its checksum does not match`;
      return [finding('error', 'mistyped_token', mistyped)];
    }
    if (value.length >= minCharacters) return [];
    const message = `the value of ${valueEnv} (${name}) has fewer than ${minCharacters} characters, and could be guessed`;
    return [finding('error', 'weak_token', message)];
  });
}

type TokenSettings = Pick<Config, 'uploadTokens'> & { server: Pick<Config['server'], 'adminTokenEnv'> };

/** Throws a `secrets_invalid` error that lists all of these tokens that are too short or have a typo. */
export function requireStrongTokens(config: TokenSettings, secrets: Pick<Secrets, 'get'>): void {
  const findings = weakTokens(config, secrets);
  const [first] = findings;
  if (first === undefined) return;
  const more = findings.length === 1 ? '' : ` (and ${findings.length - 1} more)`;
  throw new WaybillError('secrets_invalid', `${first.message}${more}`, {
    hint: 'make a new one with waybill token new',
    findings,
  });
}
