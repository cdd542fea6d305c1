import { hasCode } from '../core/lib/errors.ts';
import { plan, requireShape } from './answers.ts';
import type { Upload } from './archive.ts';
import type { Connection } from './connection.ts';
import type { Plan, RunRecord } from './generated/api-types.ts';
import { type AcceptedRun, waitForRun, type WaitOptions } from './runs.ts';
import { bodyHeaders, uploadBundle, type UploadOptions, uploadPath } from './upload-bundle.ts';

/** Asks the daemon what would happen if the bundle were published. Nothing is published or stored. */
export async function tryBundle(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  { channel }: Pick<UploadOptions, 'channel'> = {},
): Promise<Plan> {
  const answer = await connection.requestJson({
    method: 'POST',
    path: uploadPath(pipelineId),
    query: { dry_run: 'true', channel },
    headers: bodyHeaders(upload),
    body: upload.open,
  });
  return requireShape(answer, plan);
}

export interface PushOutcome extends AcceptedRun {
  /** The record of the finished run, or null with `wait: false`. */
  run: RunRecord | null;
}

export interface PushOptions extends WaitOptions, UploadOptions {
  /** If false, does not wait for the run, but returns as soon as the daemon has accepted the bundle. */
  wait?: boolean;
  onAccepted?: (accepted: AcceptedRun) => void;
}

/** Makes the idempotency key different for each channel. */
function forChannel(upload: Upload, { channel }: Pick<UploadOptions, 'channel'>): Upload {
  if (channel === undefined) return upload;
  const idempotencyKey = `${upload.idempotencyKey}.${channel}`;
  const { parts } = upload;
  if (parts === undefined) return { ...upload, idempotencyKey };
  const only: typeof parts.only = (digests) => ({ ...parts.only(digests), idempotencyKey });
  return { ...upload, idempotencyKey, parts: { ...parts, only } };
}

/**
 * A daemon with an in-memory queue loses its runs when it restarts, but probably not this many times in a
 * row.
 */
const maxUploads = 4;

/**
 * Uploads a bundle and waits until its run has finished. `run.status` tells you how it ended. If the daemon
 * loses the run, the bundle is uploaded again. Throws a `run_unfinished` error if the run does not finish in
 * time, and the same errors as `uploadBundle`.
 */
export async function pushUpload(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  options: PushOptions = {},
): Promise<PushOutcome> {
  const { wait = true, onAccepted } = options;
  for (let uploads = 1; ; uploads += 1) {
    const accepted = await uploadBundle(connection, pipelineId, forChannel(upload, options), options);
    onAccepted?.(accepted);
    if (!wait) return { ...accepted, run: null };
    try {
      return { ...accepted, run: await waitForRun(connection, accepted.runId, options) };
    } catch (error) {
      if (!hasCode(error, 'run_not_found') || uploads === maxUploads) throw error;
    }
  }
}
