import { randomBytes } from 'node:crypto';
import type { ApiAccess } from '../../api/api-services.ts';
import { resolveLogin } from '../../api/console/people.ts';
import type { ConsoleSettings } from '../../api/console/ports.ts';
import { type KnownToken, resolveAdminToken, resolveToken, resolveTokens } from '../../api/http/auth.ts';
import { summariesOf } from '../../api/pipelines/pipelines-route.ts';
import { resolvePublishers } from '../../api/publishers/publishers.ts';
import type { UploadPipeline } from '../../api/uploads/upload-service.ts';
import type { Config, PipelineConfig } from '../../core/config/config.ts';
import { requireStrongTokens } from '../../core/config/secret-references.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { NotifierConfig } from '../../core/notify/sink-kinds.ts';
import { requireTrustedKeys } from '../../core/signing/trusted-keys.ts';
import { describeLocation } from '../../core/storage/backends.ts';
import type { ReadConfig } from './bootstrap.ts';

/* Determines who may use the API and for what, based on the configuration and the secrets. */

/** The key for access tokens if `server.token_keys_env` is not set. */
const processKey = randomBytes(32);

/**
 * Returns all tokens, and the pipelines that each of them may access. Throws `secrets_invalid` if a token is
 * missing, too short, malformed, or the same as another one, `config_invalid` if a `jwks_file` cannot be
 * used, and `signing_key_invalid` if a file with public keys cannot be used.
 */
export function resolveAccess({ config, secrets }: Pick<ReadConfig, 'config' | 'secrets'>): ApiAccess {
  requireStrongTokens(config, secrets);
  requireTrustedKeys(config.pipelines);
  return {
    tokens: resolveTokens(config.uploadTokens, secrets),
    publishers: resolvePublishers(config, secrets, processKey),
    metricsToken: metricsToken(config, secrets),
    adminToken: resolveAdminToken(config, secrets),
    login: resolveLogin(config, secrets),
    uploadPipelines: uploadPipelines(config),
    pipelineIds: new Set(config.pipelines.map(({ id }) => id)),
    sourcePipelines: sourcePipelines(config),
    pipelines: summariesOf(config),
    notifierIds: new Set(config.notifiers.map(({ id }) => id)),
    places: new Map(config.pipelines.map((pipeline) => [pipeline.id, placesOf(pipeline)])),
    notifierPlaces: new Map(config.notifiers.map((notifier) => [notifier.id, sinkPlaceOf(notifier)])),
  };
}

/**
 * Returns the console's settings, or null if it is disabled. Throws `secrets_invalid` if the session key is
 * too short to be secure.
 */
export function consoleSettings({ server }: Config, secrets: Secrets): ConsoleSettings | null {
  const { enabled, sessionMs, sessionKeyEnv } = server.console;
  if (!enabled) return null;
  if (sessionKeyEnv === null) return { sessionMs, sessionKey: randomBytes(32) };
  const sessionKey = secrets.require(sessionKeyEnv, 'server.console');
  if (sessionKey.length >= 32) return { sessionMs, sessionKey };
  throw new WaybillError('secrets_invalid', `the value of ${sessionKeyEnv} has fewer than 32 characters`, {
    hint: 'use a random one, for example the output of `openssl rand -hex 32`',
  });
}

function uploadPipelines(config: Config): Map<string, UploadPipeline> {
  const pipelines = new Map<string, UploadPipeline>();
  for (const pipeline of config.pipelines) {
    const { id, source, sceneMaps, autoManifest, signatures, destinations } = pipeline;
    if (source.backend !== 'http_upload') continue;
    const { maxUploadSize, maxFiles } = source;
    const channels = channelsOf(pipeline);
    const limits = { maxUploadSize, maxFiles };
    const rules = { sceneMaps, autoManifest, signatures };
    pipelines.set(id, { id, ...limits, ...rules, channels, destinations });
  }
  return pipelines;
}

/** Returns where each destination of a pipeline is, without secrets. */
function placesOf({ destinations }: PipelineConfig): Map<string, string> {
  return new Map(destinations.map(({ id, location }) => [id, describeLocation(location)]));
}

/** Returns where a notifier sends events, without secrets. Only the host of a URL is no secret. */
function sinkPlaceOf(notifier: NotifierConfig): string {
  if (notifier.kind === 'file') return notifier.path;
  if (notifier.kind === 'webhook') return new URL(notifier.url).host;
  return notifier.kind === 'email' ? notifier.to.join(', ') : notifier.kind;
}

/** Returns the channels of each pipeline that has a source. */
function sourcePipelines(config: Config): Map<string, readonly string[]> {
  return new Map(
    config.pipelines
      .filter(({ source }) => source.backend !== 'http_upload')
      .map((pipeline) => [pipeline.id, channelsOf(pipeline)]),
  );
}

/** Returns the channels of all destinations, sorted by name. */
function channelsOf({ destinations }: PipelineConfig): string[] {
  const names = destinations.flatMap(({ releases }) => releases?.channels.map(({ name }) => name) ?? []);
  return [...new Set(names)].sort();
}

/**
 * Returns the token that `/metrics` requires, or null if it requires none. Throws `secrets_invalid` if it is
 * missing.
 */
export function metricsToken({ server }: Config, secrets: Secrets): KnownToken | null {
  const { enabled, tokenEnv } = server.metrics;
  if (!enabled || tokenEnv === null) return null;
  return resolveToken({ id: 'metrics', valueEnv: tokenEnv }, 'server.metrics', secrets);
}

/** Limits for each token. */
interface Quotas {
  /** The maximum number of concurrent uploads. */
  uploads: number;
  partialUploads: { maxUploadsPerToken: number; maxBytesPerToken: number };
}

/**
 * Returns the limits. By default, if there is more than one token, each of them may use up to half of the
 * total.
 */
export function quotasOf({ server: { http, resumable }, uploadTokens, trustedPublishers }: Config): Quotas {
  const callers = uploadTokens.length + trustedPublishers.length;
  const shareOf = (total: number): number => (callers > 1 ? Math.ceil(total / 2) : total);
  return {
    uploads: http.maxUploadsPerToken ?? shareOf(http.queueSize),
    partialUploads: {
      maxUploadsPerToken: resumable.maxUploadsPerToken ?? shareOf(resumable.maxUploads),
      maxBytesPerToken: resumable.maxBytesPerToken ?? shareOf(resumable.maxBytes),
    },
  };
}
