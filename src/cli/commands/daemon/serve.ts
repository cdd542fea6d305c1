import { serve } from '../../daemon/serve.ts';
import { newRedaction } from '../../../core/lib/log.ts';
import { controlOf, makeLogger } from '../../output/logger.ts';
import type { DaemonOptions } from '../../setup/command-options.ts';
import { daemonProcess } from '../../process/daemon-process.ts';

export interface ServeOptions extends DaemonOptions {
  /** `--no-workers` */
  workers: boolean;
}

/** `waybill serve`: runs until SIGINT or SIGTERM; a second signal ends the process at once. */
export async function serveForever(options: ServeOptions): Promise<number> {
  const redaction = newRedaction();
  const log = await makeLogger({ ...options, pretty: true, redaction });
  const daemon = daemonProcess(log);
  const served = await serve({
    configFile: options.config,
    log,
    logging: controlOf(log, options),
    env: process.env,
    workers: options.workers,
    onSecrets: (values) => redaction.add(values),
    onReload: (phase) => daemon.onReload(phase),
  });
  return daemon.runUntilStopped(served);
}
