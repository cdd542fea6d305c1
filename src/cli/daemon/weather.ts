import { homedir } from 'node:os';
import { systemClock } from '../../core/clock.ts';
import { loadConfig } from '../../core/config/load.ts';
import { secretValues } from '../../core/config/secret-references.ts';
import { loadSecrets } from '../../core/secrets.ts';
import { describeFinding } from '../../core/finding.ts';
import type { Log } from '../../core/log.ts';
import { inContext } from '../../core/weather/open-reader.ts';
import { appOf } from '../../api/app.ts';
import { withHotReads } from '../../api/weather/hot-reads.ts';
import { listen } from '../../api/http/listen.ts';
import { weatherRoutes } from '../../api/weather/weather-routes.ts';
import { openWeather, requireDatabaseSecrets } from '../../api/weather/open-weather.ts';

export interface ServedWeather {
  /** Where it listens, with the base path; ends with `/`. */
  url: string;
  /** Answers what is under way and closes the databases; a failure of theirs is logged. */
  close(): Promise<void>;
}

/**
 * Runs the weather reader alone. Throws with the context of the step before the message; nothing is left open
 * then.
 */
export async function serveWeather({
  configFile,
  log,
  env,
  onSecrets,
}: {
  configFile: string;
  log: Log;
  env: NodeJS.ProcessEnv;
  /** Called with the values of all secrets as soon as they are known, before any of them is used. */
  onSecrets?: (values: string[]) => void;
}): Promise<ServedWeather> {
  const clock = systemClock;
  const { config, warnings, secrets } = await inContext('load config', async () => {
    const loaded = await loadConfig(configFile, { home: env['HOME'] ?? homedir() });
    const { directory } = loaded.config.secrets;
    return { ...loaded, secrets: await loadSecrets({ directory, env }) };
  });
  onSecrets?.(secretValues(config, secrets));
  for (const warning of [...warnings, ...secrets.warnings])
    log.warn({ code: warning.code }, describeFinding(warning));
  await requireDatabaseSecrets(config, secrets);
  const weather = await openWeather({ config, secrets, clock, log });
  const close = (): Promise<void> =>
    weather.close().catch((error: unknown) => log.error({ err: error }, 'closing the databases failed'));
  try {
    const { http } = config.server;
    const server = await inContext('build app', () => {
      const ports = { http, clock, log, metrics: null, weather: weather.service };
      return listen(withHotReads(appOf(weatherRoutes, ports), ports), http);
    });
    const url = `${server.origin}${http.basePath}`;
    log.info({ url, database: config.databases[0]?.name }, 'listening');
    const stop = async (): Promise<void> => {
      await server.close();
      await close();
      log.info({}, 'stopped');
    };
    let stopping: Promise<void> | undefined;
    return { url, close: () => (stopping ??= stop()) };
  } catch (error) {
    await close();
    throw error;
  }
}
