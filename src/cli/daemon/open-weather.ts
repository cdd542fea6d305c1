import type { Metrics } from '../../api/metrics/metrics.ts';
import type { OpenedWeather } from '../../weather/api/open-weather.ts';
import type { ProgramContext } from './bootstrap.ts';

/**
 * The weather reader of the daemon; null if no database is configured, and then no module is loaded either.
 * An unreachable database degrades weather reads only, since publishing does not need it.
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
