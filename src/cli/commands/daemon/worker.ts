import { WaybillError } from '../../../core/lib/errors.ts';
import { parseListen } from '../../../core/lib/settings/values.ts';
import { work } from '../../daemon/worker.ts';
import { newRedaction } from '../../../core/lib/log.ts';
import { controlOf, makeLogger } from '../../output/logger.ts';
import type { DaemonOptions } from '../../setup/command-options.ts';
import { daemonProcess } from '../../process/daemon-process.ts';

export interface WorkerCommandOptions extends DaemonOptions {
  /** `--listen` */
  listen?: string;
}

/** `waybill worker`: runs until SIGINT or SIGTERM; a second signal ends the process at once. */
export async function workForever(options: WorkerCommandOptions): Promise<number> {
  const listen = options.listen === undefined ? {} : { listen: addressOf(options.listen) };
  const redaction = newRedaction();
  const log = await makeLogger({ ...options, pretty: true, redaction });
  const daemon = daemonProcess(log);
  const worker = await work({
    configFile: options.config,
    log,
    logging: controlOf(log, options),
    env: process.env,
    ...listen,
    onSecrets: (values) => redaction.add(values),
    onReload: (phase) => daemon.onReload(phase),
  });
  return daemon.runUntilStopped(worker);
}

function addressOf(text: string): { host: string; port: number } {
  const verdict = parseListen(text);
  if (verdict.ok) return verdict.value;
  throw new WaybillError('usage', `--listen ${text}: ${verdict.reason}`, {
    hint: 'give host:port such as 127.0.0.1:9090 or [::1]:9090; port 0 takes any free one',
  });
}
