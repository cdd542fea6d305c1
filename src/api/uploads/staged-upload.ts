import type { IncomingMessage, ServerResponse } from 'node:http';
import { revisionOf } from '../../core/bundle/source-bundle.ts';
import { type Digest, digestOf } from '../../core/lib/digest.ts';
import { jsonDocument } from '../../core/lib/json-document.ts';
import { chooseOutputs, nameConflictError } from '../../core/outputs/generator.ts';
import { publicResult, type RunResult } from '../../core/publish/results/result.ts';
import type { RunOrigin } from '../../workers/queue/job.ts';
import type { AcceptedRun, Admission } from '../../workers/queue/job-queue.ts';
import { newRunId } from '../../workers/queue/start-run.ts';
import { untilLeft } from '../http/request/client-connection.ts';
import { requestContext } from '../http/request/request-context.ts';
import { jsonContent, type ResponseObject } from '../http/route.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type {
  StagedUpload,
  StageUpload,
  UploadPipeline,
  UploadPorts,
  UploadService,
} from './upload-service.ts';

type StageUploadRequest = Parameters<StageUpload>[0];
type OfPipeline = 'limits' | 'pipelineId' | 'sceneMaps' | 'autoManifest' | 'signatures';

/**
 * Stages an upload. Throws the same errors as `stage`, and `invalid_bundle` if one of the bundle's files has
 * the name of an output that waybill generates at a destination.
 */
export async function stageFor(
  { stage }: Pick<UploadService, 'stage'>,
  { id, maxUploadSize, maxFiles, sceneMaps, autoManifest, signatures = null, destinations }: UploadPipeline,
  channel: string | null,
  request: Omit<StageUploadRequest, OfPipeline>,
): Promise<StagedUpload> {
  const staged = await stage({
    ...request,
    limits: { maxUploadSize, maxFiles },
    pipelineId: id,
    sceneMaps,
    autoManifest,
    signatures,
  });
  const bundle = { ...staged.manifest, path: staged.bundlePath };
  const taken = destinations
    .filter(({ releases }) => channel === null || releases?.channels.some(({ name }) => name === channel))
    .flatMap((destination) => chooseOutputs(bundle, destination).conflicts);
  if (taken.length > 0) throw nameConflictError('the upload', taken);
  return staged;
}

/** Wraps `stage` to record how many bytes were read and extracted. */
export function measuredStage(
  stage: StageUpload,
  metrics: Pick<Metrics, 'received' | 'extracted'>,
): StageUpload {
  return async (request) => {
    const { pipelineId } = request;
    const input = measured(request.input, (bytes) => metrics.received(pipelineId, bytes));
    const staged = await stage({ ...request, input });
    metrics.extracted(pipelineId, staged.bytes);
    return staged;
  };
}

async function* measured(
  input: AsyncIterable<Uint8Array>,
  record: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    record(chunk.length);
    yield chunk;
  }
}

/** The run for an accepted upload. `isKept` is true if it is a new run, which now owns the staged files. */
export interface AcceptedUpload {
  isKept: boolean;
  accepted: AcceptedRun;
}

/**
 * Starts a run for a staged bundle, with the request `origin` as its cause. If the idempotency key has been
 * used before, returns the existing run.
 */
export async function accept(
  ports: Pick<UploadPorts, 'clock'>,
  pipeline: Pick<UploadPipeline, 'id'>,
  admission: Admission,
  staged: StagedUpload,
  channel: string | null,
  origin: RunOrigin,
): Promise<AcceptedUpload> {
  const runId = newRunId(pipeline.id, ports.clock.now());
  const { directory, bundlePath, bytes, manifest, description } = staged;
  const revision = revisionOf(manifest.document['metadata']);
  const to = {
    ...(channel === null ? {} : { channel }),
    ...(revision === null ? {} : { revision }),
  };
  const bundle = { staged: directory, bundlePath, bytes, description };
  const job = { runId, pipelineId: pipeline.id, ...bundle, ...to, ...origin };
  const accepted = await admission.accept(job, digestFor(staged, channel));
  return { isKept: !accepted.replayed, accepted };
}

/**
 * Returns the digest to store with an idempotency key. It includes the channel, because uploading the same
 * bundle to another channel is a different request.
 */
function digestFor({ contentDigest }: StagedUpload, channel: string | null): Digest {
  return channel === null ? contentDigest : digestOf(`${contentDigest}\n${channel}`);
}

/**
 * Runs `work` with a new staging directory. The directory is removed afterwards unless a new run owns it now.
 * Throws the same errors as `work`, and `insufficient_storage` if the disk is almost full.
 */
export async function withStagingDirectory<T extends { isKept: boolean }>(
  { uploads, log }: Pick<UploadPorts, 'uploads' | 'log'>,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  await uploads.room();
  const directory = await uploads.staging.create();
  const discard = (): Promise<void> =>
    uploads.staging
      .discard(directory)
      .catch((error: unknown) => log.error({ err: error }, 'a staging directory could not be removed'));
  try {
    const result = await work(directory);
    if (!result.isKept) await discard();
    return result;
  } catch (error) {
    await discard();
    throw error;
  }
}

export const planResponse: ResponseObject = {
  description:
    'With `dry_run=true`: what publishing the bundle would do, as `waybill run --dry-run --format json` prints it. Nothing was published and nothing was kept.',
  content: jsonContent('Plan'),
};

/**
 * Uses a worker thread to compute what publishing the staged bundle would do at each destination. If a
 * destination fails, its error is part of the result. Throws `aborted` if the client disconnects, the reason
 * of `stopping` if the daemon stops, and `worker_failed`.
 */
export async function planUpload(
  req: IncomingMessage,
  res: ServerResponse,
  { threads, stopping }: Pick<UploadPorts, 'threads' | 'stopping'>,
  { pipeline, staged, channel }: { pipeline: UploadPipeline; staged: StagedUpload; channel: string | null },
): Promise<RunResult> {
  return untilLeft(res, stopping, async (signal) => {
    const { directory, bundlePath } = staged;
    // A dry run has no run id, so use the request's id in the thread's log lines.
    const runId = `dry-run.${requestContext(req).id}`;
    const job = { runId, pipelineId: pipeline.id, staged: directory, bundlePath };
    return threads.plan({ ...job, channel: channel ?? undefined }, signal);
  });
}

export function sendPlan(res: ServerResponse, plan: RunResult): void {
  const body = Buffer.from(jsonDocument('run', publicResult(plan), 0));
  res.statusCode = 200;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.setHeader('Content-Length', body.length);
  res.end(body);
}
