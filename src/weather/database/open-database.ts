import type { DatabaseConfig } from '../../core/config/weather/databases.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { asWaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { WeatherDatabase } from './database.ts';

/**
 * Opens a database without checking that it responds. Drivers, and the packages they need, are only loaded if
 * they are configured.
 */
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

const againAfterMs = 1000;

/**
 * Returns a database that is opened when it is first used. If it is unreachable, it is tried again, but not
 * more than once per second. Errors in the configuration are thrown immediately.
 */
export async function openWhenThere(
  name: string,
  open: () => Promise<WeatherDatabase>,
  clock: Clock,
): Promise<WeatherDatabase> {
  let opening: Promise<WeatherDatabase> | undefined;
  let failedAt: number | null = null;
  const opened = (): Promise<WeatherDatabase> => {
    if (failedAt !== null && clock.monotonic() - failedAt >= againAfterMs) {
      failedAt = null;
      opening = undefined;
    }
    opening ??= open().catch((error: unknown) => {
      failedAt = clock.monotonic();
      throw error;
    });
    return opening;
  };
  await opened().catch((error: unknown) => {
    if (asWaybillError(error).code !== 'database_unavailable') throw error;
  });
  return {
    name,
    one: async (work, family) => (await opened()).one(work, family),
    snapshot: async (work, family) => (await opened()).snapshot(work, family),
    probe: async () => (await opened()).probe(),
    close: async () => {
      const database = await opening?.catch(() => null);
      await database?.close();
    },
  };
}
