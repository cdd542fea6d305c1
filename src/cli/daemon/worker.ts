import { releasedOnFailure } from '../../core/lifecycle.ts';
import { openCoordinator, requireBullmq } from '../../workers/open-coordinator.ts';
import { bootstrap, openNotifier, runOnce, type ProgramOptions } from './bootstrap.ts';

export interface WorkerOptions extends ProgramOptions {
  /** Whether the worker threads log at level debug. */
  verbose?: boolean;
}

export interface Working {
  /**
   * Takes no more jobs, finishes running ones within `shutdown_timeout`, and returns the others to the queue.
   * Resolves with the ids of interrupted runs.
   */
  close(): Promise<{ unfinished: string[] }>;
}

/**
 * Runs workers without an API: they publish what the APIs of other processes accept. Throws `config_invalid`,
 * `secrets_invalid`, or what opening Redis and the staging directories throws; nothing is left open then.
 */
export async function work(options: WorkerOptions): Promise<Working> {
  return releasedOnFailure(async (onFailure) => {
    const foundation = await bootstrap(options, (config) => requireBullmq(config, 'a worker'));
    const { config, log } = foundation;
    const notifier = await openNotifier(foundation);
    onFailure(() => notifier.close());
    const coordinator = await openCoordinator({
      ...foundation,
      verbose: options.verbose ?? false,
      notify: (occurrence) => notifier.notify(occurrence),
    });
    onFailure(async () => {
      await coordinator.close(0);
    });
    await coordinator.start();
    log.info({ max_concurrency: config.server.http.maxConcurrency }, 'working');
    const close = runOnce(async () => {
      const answer = await coordinator.close(config.server.http.shutdownTimeoutMs);
      await notifier.close();
      log.info(answer, 'stopped');
      return answer;
    });
    return { close };
  });
}
