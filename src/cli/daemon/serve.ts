import type { RequestListener } from 'node:http';
import { homedir } from 'node:os';
import { stageUpload } from '../../core/bundle/staging.ts';
import { systemClock } from '../../core/clock.ts';
import type { Config } from '../../core/config/config.ts';
import { loadConfig } from '../../core/config/load.ts';
import { secretValues } from '../../core/config/secret-references.ts';
import { loadSecrets, type Secrets } from '../../core/secrets.ts';
import { WaybillError } from '../../core/errors.ts';
import { describeFinding } from '../../core/finding.ts';
import type { Log } from '../../core/log.ts';
import { loggedNotifier } from '../../core/notify/logged-notifier.ts';
import type { Coordinator } from '../../workers/coordinator.ts';
import { openCoordinator, requireBullmq } from '../../workers/open-coordinator.ts';
import { resolveAdminToken } from '../../api/queue-board/admin-auth.ts';
import { createApp } from '../../api/app.ts';
import { resolveToken, resolveTokens, type Token } from '../../api/http/auth.ts';
import { countingStage } from '../../api/upload/measured-stage.ts';
import { withHotReads } from '../../api/weather/hot-reads.ts';
import { listen } from '../../api/http/listen.ts';
import { createMetrics } from '../../api/metrics/metrics.ts';
import type { ApiPorts, UploadPipeline } from '../../api/ports.ts';
import { productVersion } from '../../api/version.ts';
import type { OpenedWeather } from '../../api/weather/open-weather.ts';

export interface ServeOptions {
  configFile: string;
  log: Log;
  env: NodeJS.ProcessEnv;
  /** Called once when the daemon takes requests, with the base URL. */
  onListening?: (url: string) => void;
  /** Whether anyone reads lines of level debug of the worker threads. */
  verbose?: boolean;
  /** Whether this process publishes too; where not, workers elsewhere do. */
  workers?: boolean;
  /** Called with the values of all secrets as soon as they are known, before any of them is used. */
  onSecrets?: (values: string[]) => void;
}

export interface Served {
  /** Where it listens, with the base path; ends with `/`. */
  url: string;
  /**
   * Drains, publishes what was accepted as far as `shutdown_timeout` allows, and stops. A second call waits
   * for the first.
   */
  close(): Promise<{ unfinished: string[] }>;
}

// What is still to be told when the last run is over.
export const tellingGraceMs = 10_000;

/**
 * Runs the daemon. Throws, before anything was begun, where the configuration, the secrets, the staging
 * directory or the address do not serve. Signals are the caller's: it calls `close`.
 */
export async function serve({
  configFile,
  log,
  env,
  onListening,
  verbose = false,
  workers = true,
  onSecrets,
}: ServeOptions): Promise<Served> {
  const { config, warnings } = await loadConfig(configFile, { home: env['HOME'] ?? homedir() });
  if (!workers) requireBullmq(config, 'an API without workers');
  const secrets = await loadSecrets({ directory: config.secrets.directory, env });
  onSecrets?.(secretValues(config, secrets));
  const stopped = new AbortController();
  const clock = systemClock;
  const told = await loggedNotifier(config.notifiers, {
    clock,
    log,
    secrets,
    hurry: stopped.signal,
    onOutcome: ({ notifierId, delivered }) => metrics?.recordDelivery({ notifierId, delivered }),
  });
  for (const warning of [...warnings, ...secrets.warnings, ...told.warnings])
    log.warn({ code: warning.code }, describeFinding(warning));
  const tokens = resolveTokens(config.uploadTokens, secrets);
  const metricsToken = metricsTokenOf(config, secrets);
  const adminToken = resolveAdminToken(config, secrets);

  // Listening comes before the sweep of staging: a second daemon of the same configuration fails here and
  // sweeps nothing.
  const gate = openingGate();
  const server = await listen(gate.listener, config.server.http);
  const weather = await openedWeather(config, secrets, log).catch(async (error: unknown) => {
    await server.close();
    throw error;
  });
  const metrics = config.server.metrics.enabled
    ? createMetrics({
        version: productVersion(),
        nodeVersion: process.version,
        pipelineIds: config.pipelines.map(({ id }) => id),
        depth: () => coordinator.queue.depth(),
        threads: () => coordinator.threads(),
      })
    : null;
  const coordinator: Coordinator = await openCoordinator({
    config,
    env: definedValues(env),
    clock: systemClock,
    log,
    verbose,
    ...(metrics === null ? {} : { observer: metrics.runs }),
    notify: (occurrence) => told.notifier.notify(occurrence),
    secrets,
  }).catch(async (error: unknown) => {
    await weather?.close();
    await server.close();
    throw error;
  });
  const stopping = new AbortController();
  let draining = false;
  const ports: ApiPorts = {
    http: config.server.http,
    clock: systemClock,
    log,
    tokens,
    pipelines: uploadPipelines(config),
    sourcePipelines: sourcePipelines(config),
    queue: coordinator.queue,
    staging: coordinator.staging,
    stage: metrics === null ? stageUpload : countingStage(stageUpload, metrics),
    metrics,
    metricsToken,
    weather: weather?.service ?? null,
    stopping: stopping.signal,
    isDraining: () => draining,
    board: adminToken === null ? null : await boardOf(coordinator, adminToken, config),
  };
  if (workers) await coordinator.start();
  gate.open(withHotReads(createApp(ports), ports));
  const url = `${server.origin}${config.server.http.basePath}`;
  log.info({ url, pipelines: [...uploadPipelines(config).keys()] }, 'listening');
  onListening?.(url);

  const stop = async (): Promise<{ unfinished: string[] }> => {
    draining = true;
    const { shutdownTimeoutMs } = config.server.http;
    const { unfinished } = await coordinator.queue.close(shutdownTimeoutMs);
    stopping.abort(
      new WaybillError('shutting_down', 'the daemon stopped before the upload was whole', {
        hint: 'upload again shortly',
      }),
    );
    await server.close();
    await coordinator.close(shutdownTimeoutMs);
    await weather
      ?.close()
      .catch((error: unknown) => log.error({ err: error }, 'closing the weather databases failed'));
    // No more is published; what is still to be told gets one more try.
    stopped.abort();
    await told.notifier.close(tellingGraceMs);
    log.info({ unfinished }, 'stopped');
    return { unfinished };
  };
  let closing: Promise<{ unfinished: string[] }> | undefined;
  return { url, close: () => (closing ??= stop()) };
}

/** Loaded only where it is configured. */
async function openedWeather(config: Config, secrets: Secrets, log: Log): Promise<OpenedWeather | null> {
  if (config.databases.length === 0) return null;
  const { openWeather, requireDatabaseSecrets } = await import('../../api/weather/open-weather.ts');
  await requireDatabaseSecrets(config, secrets);
  return openWeather({ config, secrets, clock: systemClock, log });
}

/** Holds requests back until the daemon is ready for them; it opens once. */
function openingGate(): { listener: RequestListener; open: (listener: RequestListener) => void } {
  let open: (listener: RequestListener) => void = () => undefined;
  const opened = new Promise<RequestListener>((resolve) => (open = resolve));
  return { listener: (req, res) => void opened.then((listener) => listener(req, res)), open };
}

async function boardOf(
  coordinator: Coordinator,
  token: Token,
  config: Config,
): Promise<NonNullable<ApiPorts['board']> | null> {
  if (coordinator.board === null) return null;
  const { queueBoard } = await import('../../api/queue-board/queue-board.ts');
  return queueBoard(coordinator.board, token, config.server.http.basePath);
}

function uploadPipelines(config: Config): Map<string, UploadPipeline> {
  const pipelines = new Map<string, UploadPipeline>();
  for (const { id, source, sceneMaps } of config.pipelines) {
    if (source.backend === 'http_upload')
      pipelines.set(id, { id, maxUploadSize: source.maxUploadSize, maxFiles: source.maxFiles, sceneMaps });
  }
  return pipelines;
}

function sourcePipelines(config: Config): Set<string> {
  return new Set(
    config.pipelines.filter(({ source }) => source.backend !== 'http_upload').map(({ id }) => id),
  );
}

function metricsTokenOf({ server }: Config, secrets: Secrets): Token | null {
  const { enabled, tokenEnv } = server.metrics;
  if (!enabled || tokenEnv === null) return null;
  return resolveToken({ id: 'metrics', valueEnv: tokenEnv, pipelines: [] }, 'server.metrics', secrets);
}

export function definedValues(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
