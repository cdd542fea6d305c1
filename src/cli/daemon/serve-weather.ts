import { listen } from '../../api/http/listen.ts';
import { openOrRelease } from '../../core/lib/lifecycle.ts';
import { openWeather, requireForDatabases } from '../../weather/api/open-weather.ts';
import { inContext } from '../../weather/reader.ts';
import { createReaderApp } from '../../weather/reader-app.ts';
import { inheritedSocket } from '../process/systemd.ts';
import { bootstrap, type ProgramOptions, runOnce } from './bootstrap.ts';

interface RunningWeather {
  /** The URL, including the base path. Ends with `/`. */
  url: string;
  /** Finishes requests in progress and closes the databases. If that fails, the error is only logged. */
  close(): Promise<void>;
}

/**
 * Starts the standalone weather reader. If it throws, the message begins with the step that failed, and
 * nothing is left open.
 */
export async function serveWeather(options: ProgramOptions): Promise<RunningWeather> {
  return openOrRelease(async (onFailure) => {
    const { config, secrets, clock, log, logging } = await inContext('load config', () => bootstrap(options));
    await requireForDatabases(config, secrets);
    const weather = await openWeather({
      config,
      secrets,
      clock,
      log,
      metrics: null,
      allowUnreachable: false,
    });
    const closeDatabases = (): Promise<void> =>
      weather.close().catch((error: unknown) => log.error({ err: error }, 'closing the databases failed'));
    onFailure(closeDatabases);
    const { http } = config.server;
    const server = await inContext('build app', () => {
      const ports = { http, clock, log, logging, metrics: null, weather: weather.service };
      const inherited = inheritedSocket(options.env, process.pid);
      return listen(createReaderApp(ports), { ...http, inherited }, ports);
    });
    const url = `${server.origin}${http.basePath}`;
    log.info({ url, database: config.databases[0]?.name }, 'listening');
    const close = runOnce(async () => {
      await server.close();
      await closeDatabases();
      log.info({}, 'stopped');
    });
    return { url, close };
  });
}
