import path from 'node:path';
import { fetchStagedBundle } from '../../core/bundle/shared-archive.ts';
import { requireTrusted } from '../../core/bundle/signed-bundle.ts';
import type { SourceBundle } from '../../core/bundle/source-bundle.ts';
import { openStagedBundle } from '../../core/bundle/stage-upload.ts';
import type { Config, PipelineConfig } from '../../core/config/config.ts';
import type { CoreContext } from '../../core/context.ts';
import { systemClock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { withReleasers } from '../../core/lib/lifecycle.ts';
import { defaultRetryPolicy } from '../../core/lib/retry.ts';
import { loadSecrets } from '../../core/lib/secrets.ts';
import { publishBundles, publishPipeline } from '../../core/publish/publish.ts';
import { countActions } from '../../core/publish/results/result.ts';
import type { PublisherIdentity } from '../../core/publishers/published-by.ts';
import { type RetryPolicies, storageOpener } from '../../core/storage/open-storage.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob, StagedArchive, StagedJob } from '../queue/job.ts';
import { answerTask, type ThreadOutcome, type ThreadTask, type ThreadWork } from './thread-channel.ts';

/** The data passed to a worker thread when it starts. */
export interface ThreadData {
  env: Record<string, string>;
  /** True if publications should only be planned. */
  dryRun: boolean;
}

/**
 * Returns the function that runs on a worker thread and handles one task at a time. Every task comes with the
 * daemon's current configuration, so that the thread does not use a different one. Secrets are read again for
 * each job, so if one is rotated, it takes effect immediately.
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

/** No client is waiting for a publication, so there is time to wait for a server to restart. */
const patient: RetryPolicies = { opening: defaultRetryPolicy };

/** Creates the core's context for a thread. Throws `secrets_invalid`. */
export async function threadContext(
  env: ThreadData['env'],
  { config }: Pick<ThreadTask, 'config'>,
  { log, signal, notify, tracer }: ThreadWork,
  retries: RetryPolicies = {},
): Promise<CoreContext> {
  const secrets = await loadSecrets({ directory: config.secrets.directory, env });
  const openStorage = storageOpener({ clock: systemClock, log, secrets, signal }, retries);
  // Each message wakes the daemon's main thread, so none is sent if nothing receives or records it.
  const isReported = config.notifiers.length > 0 || config.audit !== null;
  const notifying = isReported ? { notify } : {};
  const cacheDirectory = path.join(config.server.staging.directory, 'cache');
  return { clock: systemClock, log, secrets, openStorage, cacheDirectory, signal, tracer, ...notifying };
}

/**
 * Publishes a staged bundle, or the contents of the pipeline's source, to all destinations of the pipeline.
 * With `dryRun`, the publication is only planned. If destinations fail, that is part of the result and does
 * not throw. Throws `pipeline_not_found`, `channel_not_found`, or `config_invalid` if this process and the
 * one that accepted the job have different configurations. Also throws if the bundle cannot be read.
 */
export async function processJob(
  job: PublishJob,
  config: Config,
  context: CoreContext,
  { dryRun, onProgress }: { dryRun: boolean; onProgress: (progress: JobProgress) => void },
): Promise<JobResult> {
  const pipeline = pipelineOf(job, config);
  if (job.staged !== null && job.archive !== undefined) await fetchArchive(job.archive, job, config, context);
  const request = {
    dryRun,
    force: false,
    runId: job.runId,
    onProgress,
    trace: traceOf(job),
    reportCommitsSince: job.begunAt,
    channel: job.channel,
    publisher: publisherOf(job),
  };
  const published =
    job.staged === null
      ? await publishPipeline(context, pipeline, request)
      : await publishBundles(context, pipeline, [await openTrusted(job, pipeline)], request);
  const pipelines = [published];
  return { run: { dryRun, force: false, pipelines, counters: countActions(pipelines), warnings: [] } };
}

/** Opens a staged bundle and verifies its signature with the keys that the pipeline trusts at the moment. */
async function openTrusted(
  { staged, pipelineId, bundlePath, archive, description }: StagedJob,
  { signatures }: PipelineConfig,
): Promise<SourceBundle> {
  const expected = archive === undefined ? description : undefined;
  return requireTrusted(await openStagedBundle(staged, pipelineId, bundlePath, expected), signatures);
}

/** Extracts an archive from shared staging into the job's directory. */
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
      sceneMaps: pipelineOf(job, config).sceneMaps,
      signal: signal ?? new AbortController().signal,
    });
  });
}

/** Returns the publisher of the upload if there is one, and otherwise the token of the request. */
function publisherOf({ publishedBy, tokenId }: PublishJob): PublisherIdentity | undefined {
  return publishedBy ?? (tokenId === undefined ? undefined : { token_id: tokenId });
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
