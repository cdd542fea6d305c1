import type { Logger } from 'pino';
import { serve } from '../../daemon/serve.ts';
import { newRedaction } from '../../../core/redaction.ts';
import { makeLogger } from '../../logger.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { listenForStop } from '../../stop-signal.ts';

export type DaemonOptions = Pick<ConfiguredOptions, 'config' | 'verbose' | 'color'>;

export interface ServeOptions extends DaemonOptions {
  /** `--no-workers` */
  workers: boolean;
}

/** `waybill serve`: runs until SIGINT or SIGTERM; a second signal ends the process at once. */
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
  return closedBySignal(log, served);
}

/** Closes the daemon at the first SIGINT or SIGTERM; a second signal ends the process at once. */
export async function closedBySignal(
  log: Logger,
  daemon: { close(): Promise<{ unfinished: string[] }> },
): Promise<number> {
  await listenForStop((signal) => log.info({ signal }, 'draining; once more to end at once')).received;
  const { unfinished } = await daemon.close();
  if (unfinished.length > 0) log.warn({ unfinished }, 'these runs were interrupted');
  return 0;
}
