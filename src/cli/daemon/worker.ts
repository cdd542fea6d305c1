import { homedir } from 'node:os';
import { systemClock } from '../../core/clock.ts';
import { loadConfig } from '../../core/config/load.ts';
import { secretValues } from '../../core/config/secret-references.ts';
import { loadSecrets } from '../../core/secrets.ts';
import { describeFinding } from '../../core/finding.ts';
import { loggedNotifier } from '../../core/notify/logged-notifier.ts';
import { openCoordinator, requireBullmq } from '../../workers/open-coordinator.ts';
import { definedValues, tellingGraceMs, type ServeOptions } from './serve.ts';

export interface Working {
  /**
   * Takes no more jobs, finishes what runs as far as `shutdown_timeout` allows, and gives the rest back to
   * the queue.
   */
  close(): Promise<{ unfinished: string[] }>;
}

/**
 * Runs workers without an API: they publish what the APIs of other processes accept. Throws where the
 * configuration, the secrets, Redis or a directory do not serve.
 */
export async function work({
  configFile,
  log,
  env,
  verbose = false,
  onSecrets,
}: Pick<ServeOptions, 'configFile' | 'log' | 'env' | 'verbose' | 'onSecrets'>): Promise<Working> {
  const { config, warnings } = await loadConfig(configFile, { home: env['HOME'] ?? homedir() });
  requireBullmq(config, 'a worker');
  const secrets = await loadSecrets({ directory: config.secrets.directory, env });
  onSecrets?.(secretValues(config, secrets));
  const stopped = new AbortController();
  const told = await loggedNotifier(config.notifiers, {
    clock: systemClock,
    log,
    secrets,
    hurry: stopped.signal,
    onOutcome: () => undefined,
  });
  for (const warning of [...warnings, ...secrets.warnings, ...told.warnings])
    log.warn({ code: warning.code }, describeFinding(warning));
  const coordinator = await openCoordinator({
    config,
    env: definedValues(env),
    clock: systemClock,
    log,
    verbose,
    secrets,
    notify: (occurrence) => told.notifier.notify(occurrence),
  });
  await coordinator.start();
  log.info({ max_concurrency: config.server.http.maxConcurrency }, 'working');
  let closing: Promise<{ unfinished: string[] }> | undefined;
  const stop = async (): Promise<{ unfinished: string[] }> => {
    const answer = await coordinator.close(config.server.http.shutdownTimeoutMs);
    // No more is published; what is still to be told gets one more try.
    stopped.abort();
    await told.notifier.close(tellingGraceMs);
    log.info(answer, 'stopped');
    return answer;
  };
  return { close: () => (closing ??= stop()) };
}
