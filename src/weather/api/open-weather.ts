import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { WeatherMetrics } from '../../api/metrics/weather-metrics.ts';
import type { Config } from '../../core/config/config.ts';
import { requireDatabasePackage } from '../../core/config/required-packages.ts';
import { referencedSecrets, requireSecrets } from '../../core/config/secret-references.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { asWaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { inContext, openWeatherDatabases } from '../reader.ts';
import { createTextRenderer, packagedTemplates } from '../render/text-renderer.ts';
import { createWeatherService, newWeatherObserver, type WeatherService } from './service.ts';

export interface OpenedWeather {
  service: WeatherService;
  health: DatabaseHealth;
  close(): Promise<void>;
}

/**
 * Opens the configured databases. Weather requests are served from the first one. Throws the same errors as
 * `openWeatherDatabases`, with the context in front of the message. With `allowUnreachable`, an unreachable
 * database is only logged.
 */
export async function openWeather({
  config,
  secrets,
  clock,
  log,
  metrics,
  allowUnreachable,
}: {
  config: Pick<Config, 'databases' | 'templates' | 'weather'>;
  secrets: Secrets;
  clock: Clock;
  log: Log;
  metrics: WeatherMetrics | null;
  allowUnreachable: boolean;
}): Promise<OpenedWeather> {
  const { databases, templates, weather } = config;
  const onUnreachable = (database: string, error: unknown): void =>
    log.warn({ database, reason: asWaybillError(error).message }, 'a weather database is unreachable');
  const reader = await openWeatherDatabases({
    databases,
    secrets,
    clock,
    deadlineMs: weather.deadlineMs,
    ...(allowUnreachable ? { onUnreachable } : {}),
  });
  const directory = templates.baseDir === null ? packagedTemplates : resolve(templates.baseDir);
  await access(directory).catch(() =>
    log.warn({ directory }, 'templates.base_dir does not exist: format=text is answered with 406'),
  );
  const text = createTextRenderer(directory);
  const observer = newWeatherObserver(log, metrics);
  const service = createWeatherService({ reader, text, clock, settings: weather, observer });
  return { service, health: newDatabaseHealth(reader, clock), close: () => reader.close() };
}

/**
 * Checks in advance that the databases can be opened, without connecting. Throws `package_missing` or
 * `secrets_invalid`.
 */
export async function requireForDatabases(config: Config, secrets: Secrets): Promise<void> {
  const own = { ...config, pipelines: [], notifiers: [], uploadTokens: [] };
  await inContext('open databases', () => {
    if (config.databases.some(({ driver }) => driver === 'pglite')) requireDatabasePackage();
    requireSecrets(secrets, referencedSecrets(own, { databases: true }));
  });
}

/** Checks whether the weather database responds, without blocking. */
export interface DatabaseHealth {
  /**
   * Returns the last known result. If it is more than two seconds old, also starts a new check in the
   * background.
   */
  isHealthy(): boolean;
}

const freshMs = 2000;

/**
 * Checks in the background. It can take as long as a read until we know that a database does not respond, and
 * a readiness check cannot wait that long.
 */
function newDatabaseHealth(reader: { probe(): Promise<void> }, clock: Clock): DatabaseHealth {
  let isHealthy = true;
  let probedAt = -Infinity;
  let isProbing = false;
  const probe = (): void => {
    isProbing = true;
    void reader
      .probe()
      .then(
        () => (isHealthy = true),
        () => (isHealthy = false),
      )
      .finally(() => {
        isProbing = false;
        probedAt = clock.monotonic();
      });
  };
  probe();
  return {
    isHealthy: () => {
      if (!isProbing && clock.monotonic() - probedAt >= freshMs) probe();
      return isHealthy;
    },
  };
}
