import type { Logger } from 'pino';
import { once } from 'node:events';
import { serve } from '../daemon/serve.ts';
import { newRedaction } from '../../core/redaction.ts';
import { makeLogger } from '../logger.ts';
import type { ConfiguredOptions } from '../options.ts';

export type DaemonOptions = Pick<ConfiguredOptions, 'config' | 'verbose' | 'color'>;

export interface ServeOptions extends DaemonOptions {
  /** `--no-workers` */
  workers: boolean;
}

/** `waybill serve`: until SIGINT or SIGTERM; a second signal ends the process at once. */
export async function serveForever(options: ServeOptions): Promise<number> {
  const redaction = newRedaction();
  const log = await makeLogger({ ...options, pretty: true, redaction });
  const served = await serve({
    configFile: options.config,
    log,
    env: process.env,
    verbose: options.verbose,
    workers: options.workers,
    onSecrets: (values) => redaction.add(values),
  });
  return untilSignalled(log, served);
}

/** Until SIGINT or SIGTERM; then it closes the daemon, and a second signal ends the process at once. */
export async function untilSignalled(
  log: Logger,
  daemon: { close(): Promise<{ unfinished: string[] }> },
): Promise<number> {
  const stop = new AbortController();
  const ask = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(signal === 'SIGINT' ? 130 : 143);
    log.info({ signal }, 'draining; once more to end at once');
    stop.abort();
  };
  process.on('SIGINT', ask).on('SIGTERM', ask);
  await once(stop.signal, 'abort');
  const { unfinished } = await daemon.close();
  if (unfinished.length > 0) log.warn({ unfinished }, 'these runs were interrupted');
  return 0;
}
