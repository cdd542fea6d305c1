import { work } from '../../api/worker.ts';
import { makeLog, untilSignalled, type DaemonOptions } from './serve.ts';

/** `waybill worker`: publishes until SIGINT or SIGTERM; a second signal ends the process at once. */
export async function workForever(options: DaemonOptions): Promise<number> {
  const log = await makeLog(options);
  const { config: configFile, verbose } = options;
  return untilSignalled(log, await work({ configFile, log, env: process.env, verbose }));
}
