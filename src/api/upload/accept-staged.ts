import { revisionOf } from '../../core/bundle/revision.ts';
import { digestOf, type Digest } from '../../core/lib/digest.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';
import type { Admission, AcceptedRun } from '../../workers/queue/job-queue.ts';
import { newRunId } from '../../workers/queue/start-run.ts';
import type { StagedUpload, UploadPipeline, UploadPorts } from './ports.ts';

/** A run that an upload led to; `isKept`: it is new, and has taken over what was staged. */
export interface Accepted {
  isKept: boolean;
  accepted: AcceptedRun;
}

/**
 * Turns a staged bundle into a run, which belongs to the span `trace`, or finds the run that its key was
 * used for.
 */
export async function accept(
  ports: Pick<UploadPorts, 'clock'>,
  pipeline: Pick<UploadPipeline, 'id'>,
  admission: Admission,
  staged: StagedUpload,
  channel: string | null,
  trace: TraceContext,
): Promise<Accepted> {
  const runId = newRunId(pipeline.id, ports.clock.now());
  const { directory, bundlePath, bytes, manifest } = staged;
  const revision = revisionOf(manifest.document['metadata']);
  const to = {
    ...(channel === null ? {} : { channel }),
    ...(revision === null ? {} : { revision }),
  };
  const job = { runId, pipelineId: pipeline.id, staged: directory, bundlePath, bytes, ...to, ...trace };
  const accepted = await admission.accept(job, digestFor(staged, channel));
  return { isKept: !accepted.replayed, accepted };
}

/** What a key stands for: the same bundle for another channel is another request. */
function digestFor({ contentDigest }: StagedUpload, channel: string | null): Digest {
  return channel === null ? contentDigest : digestOf(`${contentDigest}\n${channel}`);
}

/**
 * Does `work` with a new staging directory, and removes it unless a new run has taken it over. Throws what
 * `work` throws, and `insufficient_storage` where there is hardly any room.
 */
export async function withStagingDirectory<T extends { isKept: boolean }>(
  ports: Pick<UploadPorts, 'staging' | 'room' | 'log'>,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  await ports.room();
  const directory = await ports.staging.create();
  const discard = (): Promise<void> =>
    ports.staging
      .discard(directory)
      .catch((error: unknown) => ports.log.error({ err: error }, 'a staging directory could not be removed'));
  try {
    const result = await work(directory);
    if (!result.isKept) await discard();
    return result;
  } catch (error) {
    await discard();
    throw error;
  }
}
