import { homedir } from 'node:os';
import { systemClock } from '../core/clock.ts';
import { loadConfig } from '../core/config/load.ts';
import { loadSecrets } from '../core/config/secrets.ts';
import { describeFinding } from '../core/finding.ts';
import { openCoordinator, requireBullmq } from '../workers/open-coordinator.ts';
import { definedValues, type ServeOptions } from './main.ts';

export interface Working {
  /** Takes no more jobs, finishes what runs as far as `shutdown_timeout` allows, and gives the rest back to the queue. */
  close(): Promise<{ unfinished: string[] }>;
}

/** Runs workers without an API: they publish what the APIs of other processes accept. Throws where the configuration, the secrets, Redis or a directory do not serve. */
export async function work({
  configFile,
  log,
  env,
  verbose = false,
}: Pick<ServeOptions, 'configFile' | 'log' | 'env' | 'verbose'>): Promise<Working> {
  const { config, warnings } = await loadConfig(configFile, { home: env['HOME'] ?? homedir() });
  requireBullmq(config, 'a worker');
  const secrets = await loadSecrets({ directory: config.secrets.directory, env });
  for (const warning of [...warnings, ...secrets.warnings])
    log.warn({ code: warning.code }, describeFinding(warning));
  const coordinator = await openCoordinator({
    config,
    env: definedValues(env),
    clock: systemClock,
    log,
    verbose,
    secrets,
  });
  await coordinator.start();
  log.info({ max_concurrency: config.server.http.maxConcurrency }, 'working');
  let stopped: Promise<{ unfinished: string[] }> | undefined;
  const stop = async (): Promise<{ unfinished: string[] }> => {
    const answer = await coordinator.close(config.server.http.shutdownTimeoutMs);
    log.info(answer, 'stopped');
    return answer;
  };
  return { close: () => (stopped ??= stop()) };
}
