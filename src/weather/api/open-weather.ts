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
import { createTextRenderer, packagedTemplates } from '../render/text.ts';
import { createWeatherService, newWeatherObserver, type WeatherService } from './service.ts';

export interface OpenedWeather {
  service: WeatherService;
  /** Whether the database answers. */
  pulse: Pulse;
  /** Closes the databases. */
  close(): Promise<void>;
}

/**
 * Opens the databases of the configuration and makes the service of the first. Throws with the context before
 * the message, as `openWeatherDatabases` does; if `mayBeAway`, a database that cannot be reached is only
 * logged.
 */
export async function openWeather({
  config,
  secrets,
  clock,
  log,
  metrics,
  mayBeAway,
}: {
  config: Pick<Config, 'databases' | 'templates' | 'weather'>;
  secrets: Secrets;
  clock: Clock;
  log: Log;
  metrics: WeatherMetrics | null;
  mayBeAway: boolean;
}): Promise<OpenedWeather> {
  const { databases, templates, weather } = config;
  const onAway = (database: string, error: unknown): void =>
    log.warn({ database, reason: asWaybillError(error).message }, 'a weather database is away');
  const reader = await openWeatherDatabases({
    databases,
    secrets,
    clock,
    deadlineMs: weather.deadlineMs,
    ...(mayBeAway ? { onAway } : {}),
  });
  const directory = templates.baseDir === null ? packagedTemplates : resolve(templates.baseDir);
  await access(directory).catch(() =>
    log.warn({ directory }, 'templates.base_dir is not there: format=text is answered with 406'),
  );
  const text = createTextRenderer(directory);
  const observer = newWeatherObserver(log, metrics);
  const service = createWeatherService({ reader, text, clock, settings: weather, observer });
  return { service, pulse: newPulse(reader, clock), close: () => reader.close() };
}

/** Throws `package_missing` or `secrets_invalid` before a database is opened. */
export async function requireForDatabases(config: Config, secrets: Secrets): Promise<void> {
  const own = { ...config, pipelines: [], notifiers: [], uploadTokens: [] };
  await inContext('open databases', () => {
    if (config.databases.some(({ driver }) => driver === 'pglite')) requireDatabasePackage();
    requireSecrets(secrets, referencedSecrets(own, { databases: true }));
  });
}

/** Whether the weather database answers, without waiting for it. */
export interface Pulse {
  /** As found by the last probe that ended. The look starts another if that one is some seconds old. */
  isUp(): boolean;
}

const freshMs = 2000;

/** A probe may take until the deadline of a read, and readiness must not. */
function newPulse(reader: { probe(): Promise<void> }, clock: Clock): Pulse {
  let isUp = true;
  let probedAt = -Infinity;
  let isProbing = false;
  const probe = (): void => {
    isProbing = true;
    void reader
      .probe()
      .then(
        () => (isUp = true),
        () => (isUp = false),
      )
      .finally(() => {
        isProbing = false;
        probedAt = clock.monotonic();
      });
  };
  probe();
  return {
    isUp: () => {
      if (!isProbing && clock.monotonic() - probedAt >= freshMs) probe();
      return isUp;
    },
  };
}
