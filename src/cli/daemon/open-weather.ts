import type { Metrics } from '../../api/metrics/metrics.ts';
import type { OpenedWeather } from '../../weather/api/open-weather.ts';
import type { ProgramContext } from './bootstrap.ts';

/**
 * Opens the daemon's weather reader. Returns null, without loading any module, if no database is configured.
 * An unreachable database degrades only weather reads, since publishing does not need it.
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
