import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import type { Config } from '../../core/config/config.ts';
import { referencedSecrets, requireSecrets } from '../../core/config/secret-references.ts';
import type { Secrets } from '../../core/secrets.ts';
import type { Log } from '../../core/log.ts';
import { inContext, openWeatherDatabases } from '../../core/weather/open-reader.ts';
import { createTextRenderer } from '../../core/weather/render/text.ts';
import { createWeatherService, type WeatherService } from './service.ts';

export interface OpenedWeather {
  service: WeatherService;
  /** Closes the databases. */
  close(): Promise<void>;
}

/**
 * Opens the databases of the configuration and makes the service of the first. Throws with the context before
 * the message, as `openWeatherDatabases` does.
 */
export async function openWeather({
  config,
  secrets,
  clock,
  log,
}: {
  config: Pick<Config, 'databases' | 'templates' | 'weather'>;
  secrets: Secrets;
  clock: Clock;
  log: Log;
}): Promise<OpenedWeather> {
  const reader = await openWeatherDatabases({ databases: config.databases, secrets, clock });
  const directory = resolve(config.templates.baseDir);
  await access(directory).catch(() =>
    log.warn({ directory }, 'no directory of text templates is there: format=text is answered with 406'),
  );
  const text = createTextRenderer(directory);
  const service = createWeatherService({ reader, text, clock, cacheMs: config.weather.cacheMs });
  return { service, close: () => reader.close() };
}

/** What the databases need must be there before one is opened. */
export async function requireDatabaseSecrets(config: Config, secrets: Secrets): Promise<void> {
  const own = { ...config, pipelines: [], notifiers: [], uploadTokens: [] };
  await inContext('open databases', () =>
    requireSecrets(secrets, referencedSecrets(own, { databases: true })),
  );
}
