import path from 'node:path';
import { fetchStagedBundle } from '../../core/bundle/shared-archive.ts';
import { openStagedBundle } from '../../core/bundle/staging.ts';
import type { Config, PipelineConfig } from '../../core/config/config.ts';
import type { CoreContext } from '../../core/context.ts';
import { systemClock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { withReleasers } from '../../core/lib/lifecycle.ts';
import { defaultRetryPolicy } from '../../core/lib/retry.ts';
import { loadSecrets } from '../../core/lib/secrets.ts';
import { publishBundles, publishPipeline } from '../../core/publish/publish.ts';
import { countActions } from '../../core/publish/results/result.ts';
import { type RetryPolicies, storageOpener } from '../../core/storage/open-storage.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob, StagedArchive, StagedJob } from '../queue/job.ts';
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

/**
 * Publishes one staged bundle, or what the pipeline's source holds, to every destination of its pipeline;
 * with `dryRun` it decides what that would do, and changes nothing. A failed destination is in the result,
 * not thrown. Throws `pipeline_not_found` or `config_invalid` if this process has another configuration than
 * the one that accepted the job, `channel_not_found` likewise, and what reading the bundle throws.
 */
export async function processJob(
  job: PublishJob,
  config: Config,
  context: CoreContext,
  { dryRun, onProgress }: { dryRun: boolean; onProgress: (progress: JobProgress) => void },
): Promise<JobResult> {
  const pipeline = pipelineOf(job, config);
  if (job.staged !== null && job.archive !== undefined) await fetchArchive(job.archive, job, config, context);
  const resumed = job.begunAt === undefined ? {} : { tellsSince: job.begunAt };
  const trace = traceOf(job);
  const channel = job.channel === undefined ? {} : { channel: job.channel };
  const request = { dryRun, force: false, runId: job.runId, onProgress, trace, ...resumed, ...channel };
  const published =
    job.staged === null
      ? await publishPipeline(context, pipeline, request)
      : await publishBundles(
          context,
          pipeline,
          [await openStagedBundle(job.staged, job.pipelineId, job.bundlePath)],
          request,
        );
  const pipelines = [published];
  return { run: { dryRun, force: false, pipelines, counters: countActions(pipelines), warnings: [] } };
}

/** Extracts the bundle from shared staging into the job's directory. */
async function fetchArchive(
  archive: StagedArchive,
  job: StagedJob,
  config: Config,
  { openStorage, signal }: CoreContext,
): Promise<void> {
  const { shared } = config.server.staging;
  if (shared === null)
    throw new WaybillError(
      'config_invalid',
      `run ${job.runId} lies in shared staging, and none is configured here`,
      { hint: 'give every daemon and worker the same configuration' },
    );
  await withReleasers(async (onRelease) => {
    const storage = await openStorage(shared, { readOnly: true, mustExist: true });
    onRelease(() => storage.close());
    await fetchStagedBundle({
      storage,
      archive,
      directory: job.staged,
      pipelineId: job.pipelineId,
      sceneMaps: pipelineOf(job, config).sceneMaps,
      signal: signal ?? new AbortController().signal,
    });
  });
}

function pipelineOf(job: PublishJob, config: Config): PipelineConfig {
  const pipeline = config.pipelines.find(({ id }) => id === job.pipelineId);
  if (pipeline !== undefined) return pipeline;
  throw new WaybillError(
    'pipeline_not_found',
    `the pipeline "${job.pipelineId}" of run ${job.runId} is not configured here`,
    {
      hint: 'give every daemon and worker the same configuration',
    },
  );
}
