import { once } from 'node:events';
import { serve } from '../../api/main.ts';
import { newRedaction } from '../../core/redaction.ts';
import { makeLogger } from '../logger.ts';
import type { ConfiguredOptions } from '../options.ts';

export type ServeOptions = Pick<ConfiguredOptions, 'config' | 'verbose' | 'color'>;

/** `waybill serve`: until SIGINT or SIGTERM; a second signal ends the process at once. */
export async function serveForever(options: ServeOptions): Promise<number> {
  const redaction = newRedaction();
  const log = await makeLogger({ ...options, pretty: true, redaction });
  const served = await serve({
    configFile: options.config,
    log,
    env: process.env,
    verbose: options.verbose,
    onSecrets: (values) => redaction.add(values),
  });
  const stop = new AbortController();
  const ask = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(signal === 'SIGINT' ? 130 : 143);
    log.info({ signal }, 'draining; once more to end at once');
    stop.abort();
  };
  process.on('SIGINT', ask).on('SIGTERM', ask);
  await once(stop.signal, 'abort');
  const { unfinished } = await served.close();
  if (unfinished.length > 0) log.warn({ unfinished }, 'these runs were not finished; upload again');
  return 0;
}
