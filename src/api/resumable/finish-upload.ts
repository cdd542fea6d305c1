import type { IncomingMessage } from 'node:http';
import { WaybillError } from '../../core/lib/errors.ts';
import type { PartialOutcome, PartialUpload } from '../../workers/staging/partial-upload.ts';
import type { AdmissionRequest } from '../../workers/queue/job-queue.ts';
import { stagingFailure } from '../../workers/staging/staging-check.ts';
import { isConcealed } from '../http/problem.ts';
import { requireAuthorized } from '../http/request/authority.ts';
import { requestContext } from '../http/request/request-context.ts';
import { accept, withStagingDirectory } from '../upload/accept-staged.ts';
import type { UploadPipeline } from '../upload/ports.ts';
import { stageFor } from '../upload/stage-for.ts';
import type { ResumablePorts } from './ports.ts';

/**
 * Makes a run of an upload whose bytes are all there, with every check of a plain upload. Throws what that is
 * refused with. What may pass leaves the upload as it is, without its last byte; anything else removes it.
 */
export async function finishUpload(
  ports: ResumablePorts,
  pipeline: UploadPipeline,
  upload: PartialUpload,
  req: IncomingMessage,
): Promise<void> {
  const { partialUploads } = ports;
  try {
    const outcome = await hand(ports, pipeline, upload, req);
    await partialUploads
      .end(upload.id, outcome)
      .catch((error: unknown) =>
        ports.log.error({ err: error }, 'what came of an upload could not be noted'),
      );
  } catch (thrown) {
    const error = stagingFailure(thrown);
    if (error instanceof WaybillError && !error.retryable && !isConcealed(error.code))
      await partialUploads
        .remove(upload.id)
        .catch((failure: unknown) =>
          ports.log.error({ err: failure }, 'a refused upload could not be removed'),
        );
    throw error;
  }
}

async function hand(
  ports: ResumablePorts,
  pipeline: UploadPipeline,
  upload: PartialUpload,
  req: IncomingMessage,
): Promise<PartialOutcome> {
  const admission = await ports.queue.reserve({
    pipelineId: pipeline.id,
    idempotency: idempotencyOf(upload),
  });
  try {
    const { accepted } = await withStagingDirectory(ports, async (directory) => {
      const staged = await stageFor(ports, pipeline, upload.channel, {
        input: ports.partialUploads.open(upload.id),
        directory,
        signal: ports.stopping,
        partial: upload.partial,
        keeps: true,
      });
      // Staging a large archive takes long: its token may be gone by now.
      requireAuthorized(req);
      return accept(ports, pipeline, admission, staged, upload.channel, requestContext(req).trace);
    });
    return { runId: accepted.record.run_id, position: accepted.position, replayed: accepted.replayed };
  } finally {
    await admission.release();
  }
}

/**
 * Without a key of the client the upload is its own: a daemon that ended between the acceptance and its
 * answer finds the run when the last byte is sent again. The caller is no id that a token can have.
 */
function idempotencyOf({
  id,
  caller,
  key,
  rerunFailed,
}: PartialUpload): NonNullable<AdmissionRequest['idempotency']> {
  return key === null ? { caller: `partial:${caller}`, key: id } : { caller, key, rerunFailed };
}
