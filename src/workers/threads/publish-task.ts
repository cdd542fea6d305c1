import path from 'node:path';
import { systemClock } from '../../core/lib/clock.ts';
import type { CoreContext } from '../../core/context.ts';
import { defaultRetryPolicy } from '../../core/lib/retry.ts';
import { loadSecrets } from '../../core/lib/secrets.ts';
import { storageOpener, type RetryPolicies } from '../../core/storage/open-storage.ts';
import { processJob } from './process-job.ts';
import { answerTask, type ThreadOutcome, type ThreadTask, type ThreadWork } from './thread-channel.ts';

/** What a worker thread is started with. */
export interface ThreadData {
  env: Record<string, string>;
  /** The thread decides what publications would do, and carries none out. */
  dryRun: boolean;
}

/**
 * The body of a worker thread: a function from a task to its outcome. The configuration comes with the task,
 * as the daemon has it then, so that both sides always agree on it; secrets are read for each job, so that a
 * rotated one is used at once.
 */
export function publishTask({ env, dryRun }: ThreadData): (task: ThreadTask) => Promise<ThreadOutcome> {
  return (task) =>
    answerTask(task, { clock: systemClock }, async (job, work) =>
      processJob(job, task.config, await threadContext(env, task, work, dryRun ? {} : patient), {
        dryRun,
        onProgress: work.onProgress,
      }),
    );
}

/** No client waits for a publication: it outlasts the restart of a server. */
const patient: RetryPolicies = { opening: defaultRetryPolicy };

/** The context of the core on a thread. Throws `secrets_invalid`. */
export async function threadContext(
  env: ThreadData['env'],
  { config }: Pick<ThreadTask, 'config'>,
  { log, signal, notify, tracer }: ThreadWork,
  retries: RetryPolicies = {},
): Promise<CoreContext> {
  const secrets = await loadSecrets({ directory: config.secrets.directory, env });
  const openStorage = storageOpener({ clock: systemClock, log, secrets, signal }, retries);
  // Each message wakes the daemon's own thread, so none is sent if there is no notifier.
  const notifying = config.notifiers.length === 0 ? {} : { notify };
  const cacheDirectory = path.join(config.server.staging.directory, 'cache');
  return { clock: systemClock, log, secrets, openStorage, cacheDirectory, signal, tracer, ...notifying };
}
