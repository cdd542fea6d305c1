import { openStagedBundle } from '../core/bundle/staging.ts';
import type { Config, PipelineConfig } from '../core/config/config.ts';
import type { CoreContext } from '../core/context.ts';
import { WaybillError } from '../core/errors.ts';
import { publishBundles, publishPipeline } from '../core/publish/publish.ts';
import { countActions } from '../core/publish/summary.ts';
import type { JobProgress, JobResult, PublishJob } from './job.ts';

/** Publishes one staged bundle, or what the pipeline's source holds, to every destination of its pipeline. What failed at a destination is in the result, not thrown. */
export async function processJob(
  job: PublishJob,
  config: Config,
  context: CoreContext,
  onProgress: (progress: JobProgress) => void,
): Promise<JobResult> {
  const pipeline = pipelineOf(job, config);
  const options = { pipeline, dryRun: false, force: false, runId: job.runId, onProgress };
  const published =
    job.staged === null
      ? await publishPipeline(context, options)
      : await publishBundles(context, {
          ...options,
          bundles: [await openStagedBundle(job.staged, job.pipelineId, job.bundlePath)],
        });
  const pipelines = [published];
  return { run: { dryRun: false, force: false, pipelines, counters: countActions(pipelines), warnings: [] } };
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
