import { work } from '../../daemon/worker.ts';
import { newRedaction } from '../../../core/redaction.ts';
import { makeLogger } from '../../logger.ts';
import type { DaemonOptions } from '../../options.ts';
import { daemonProcess } from '../../daemon-process.ts';

/** `waybill worker`: runs until SIGINT or SIGTERM; a second signal ends the process at once. */
export async function workForever(options: DaemonOptions): Promise<number> {
  const redaction = newRedaction();
  const log = await makeLogger({ ...options, pretty: true, redaction });
  const daemon = daemonProcess(log);
  const worker = await work({
    configFile: options.config,
    log,
    env: process.env,
    verbose: options.verbose,
    onSecrets: (values) => redaction.add(values),
  });
  return daemon.runUntilStopped(worker);
}
