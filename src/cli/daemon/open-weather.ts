import type { Metrics } from '../../api/metrics/metrics.ts';
import type { OpenedWeather } from '../../weather/api/open-weather.ts';
import type { ProgramContext } from './bootstrap.ts';

/**
 * Opens the weather reader of the daemon. If no database is configured, returns null without loading any
 * modules. If a database cannot be reached, only weather requests are affected, because publishing does not
 * need it.
 */
export async function openConfiguredWeather(
  foundation: ProgramContext,
  metrics: Metrics | null,
): Promise<OpenedWeather | null> {
  const { config, secrets } = foundation;
  if (config.databases.length === 0) return null;
  const { openWeather, requireForDatabases } = await import('../../weather/api/open-weather.ts');
  await requireForDatabases(config, secrets);
  return openWeather({ ...foundation, metrics, allowUnreachable: true });
}
