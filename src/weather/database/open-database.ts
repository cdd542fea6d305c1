import type { DatabaseConfig } from '../../core/config/weather/databases.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { WeatherDatabase } from './database.ts';

/** Opens without probing. A driver and its package are loaded only if they are configured. */
export async function openDatabase(
  config: DatabaseConfig,
  { secrets, ...limits }: { secrets: Secrets; deadlineMs: number },
): Promise<WeatherDatabase> {
  if (config.driver === 'pglite') {
    const { openPglite } = await import('./pglite.ts');
    return openPglite(config, limits);
  }
  const url = secrets.require(config.urlEnv, `database "${config.name}"`);
  const { openPostgres } = await import('./postgres.ts');
  return openPostgres(config, url, limits);
}
