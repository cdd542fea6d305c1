import { hasCode } from '../core/errors.ts';
import type { Plan, RunRecord } from './generated/api-types.ts';
import type { Connection } from './http/connection.ts';
import { acceptedRun, waitForRun, type AcceptedRun, type WaitOptions } from './runs.ts';

/** An archive to upload, opened anew for each try. */
export interface Upload {
  open: () => AsyncIterable<Uint8Array>;
  /** In bytes, if it is known. */
  size?: number;
  contentType: 'application/gzip' | 'application/x-tar';
  /** The same for the same bundle, so that all tries are one upload. */
  idempotencyKey: string;
}

/**
 * Uploads a bundle, tried until the daemon has taken it. Any number of tries makes one run, since all of them
 * have the key of the bundle; only if the run of that key has failed is there another one.
 */
export async function uploadBundle(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
): Promise<AcceptedRun> {
  const answer = await connection.askJson({
    method: 'POST',
    path: uploadPath(pipelineId),
    query: { rerun_failed: 'true' },
    headers: { ...headersOf(upload), 'idempotency-key': upload.idempotencyKey },
    body: upload.open,
  });
  return acceptedRun(answer);
}

/** What publishing the bundle would do, as the daemon decides it now; nothing is published or kept. */
export async function tryBundle(connection: Connection, pipelineId: string, upload: Upload): Promise<Plan> {
  const { body } = await connection.askJson({
    method: 'POST',
    path: uploadPath(pipelineId),
    query: { dry_run: 'true' },
    headers: headersOf(upload),
    body: upload.open,
  });
  return body as Plan;
}

export interface PushOutcome extends AcceptedRun {
  /** The record of the finished run; null if it was not waited for. */
  run: RunRecord | null;
}

export interface PushOptions extends WaitOptions {
  /** False: returns as soon as the daemon has taken the bundle. */
  wait?: boolean;
  onAccepted?: (accepted: AcceptedRun) => void;
}

/** A daemon whose queue is in memory may forget a run once when it is restarted, and hardly more often. */
const maxUploads = 4;

/**
 * Uploads a bundle and waits until its run has ended; whether it succeeded, `run.status` says. A run that the
 * daemon has forgotten is uploaded again. Throws `run_unfinished` if the run has not ended in time, and what
 * `uploadBundle` throws.
 */
export async function pushUpload(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  { wait = true, onAccepted, ...waiting }: PushOptions = {},
): Promise<PushOutcome> {
  for (let uploads = 1; ; uploads += 1) {
    const accepted = await uploadBundle(connection, pipelineId, upload);
    onAccepted?.(accepted);
    if (!wait) return { ...accepted, run: null };
    try {
      return { ...accepted, run: await waitForRun(connection, accepted.runId, waiting) };
    } catch (error) {
      if (!hasCode(error, 'run_not_found') || uploads === maxUploads) throw error;
    }
  }
}

function uploadPath(pipelineId: string): string {
  return `v1/pipelines/${encodeURIComponent(pipelineId)}/upload`;
}

function headersOf({ contentType, size }: Upload): Record<string, string> {
  return {
    'content-type': contentType,
    ...(size === undefined ? {} : { 'content-length': String(size) }),
  };
}
