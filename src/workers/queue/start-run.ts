import { customAlphabet } from 'nanoid';
import type { Clock } from '../../core/lib/clock.ts';
import { digestOf } from '../../core/lib/digest.ts';
import type { RunOrigin } from './job.ts';
import type { AcceptedRun, AdmissionRequest, RunAdmission } from './job-queue.ts';

/**
 * Queues a run of a pipeline that has a source, either on request or for a schedule. If several calls with
 * the same idempotency key happen at once, only one run is started. The others get its record, with
 * `replayed: true`. A schedule on several hosts therefore uses the time of the tick as its key.
 *
 * `origin` describes the request that asked for the run, including the span that the run becomes part of.
 *
 * Throws `queue_full`, `pipeline_full`, `shutting_down`, `idempotency_in_progress`, or `queue_unavailable`.
 * The caller must make sure that the pipeline exists and has a source.
 */
export async function startRun(
  { queue, clock }: { queue: RunAdmission; clock: Clock },
  request: AdmissionRequest & { channel?: string | null },
  origin: RunOrigin = {},
): Promise<AcceptedRun> {
  const { channel = null, ...wanted } = request;
  const { pipelineId } = wanted;
  const admission = await queue.reserve(wanted);
  try {
    const runId = newRunId(pipelineId, clock.now());
    const to = { channel: channel ?? undefined };
    // Digest the whole request, because a second request with the same key must ask for the same thing.
    const requestDigest = digestOf(JSON.stringify(to));
    return await admission.accept({ runId, pipelineId, staged: null, ...to, ...origin }, requestDigest);
  } finally {
    await admission.release();
  }
}

// The run id is all you need to read the run's record, so it must be hard to guess. 36^10 is about 51 bits.
const suffix = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 10);

/** Creates a new run id: `<pipeline_id>.<compact_utc_timestamp>.<short_suffix>`. */
export function newRunId(pipelineId: string, acceptedAt: Date): string {
  return `${pipelineId}.${compactUtc(acceptedAt)}.${suffix()}`;
}

/** Formats a date as in `20261120T020434Z`. */
function compactUtc(date: Date): string {
  return `${date.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}
