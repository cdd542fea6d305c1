import { customAlphabet } from 'nanoid';
import type { Clock } from '../../core/lib/clock.ts';
import { digestOf } from '../../core/lib/digest.ts';
import type { RunOrigin } from './job.ts';
import type { AcceptedRun, AdmissionRequest, RunAdmission } from './job-queue.ts';

/**
 * Queues a run of a pipeline that has a source. Called for requests and schedules. With an idempotency key,
 * concurrent calls start only one run, and the others get its record with `replayed: true`. A schedule on
 * several hosts uses its time as the key.
 *
 * `origin` is the request that the run comes from, with the span that the run belongs to.
 *
 * Throws `queue_full`, `pipeline_full`, `shutting_down`, `idempotency_in_progress` and `queue_unavailable`.
 * Does not check that the pipeline exists and has a source.
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
    const to = channel === null ? {} : { channel };
    // Covers the whole request, because a second use of the key must have the same content.
    const requestDigest = digestOf(JSON.stringify(to));
    return await admission.accept({ runId, pipelineId, staged: null, ...to, ...origin }, requestDigest);
  } finally {
    await admission.release();
  }
}

// 36^10 is about 51 bits. The run id grants access to the run's record, so it must not be guessable.
const suffix = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 10);

/** Returns a new run's id: `<pipeline_id>.<compact_utc_timestamp>.<short_suffix>`. */
export function newRunId(pipelineId: string, acceptedAt: Date): string {
  return `${pipelineId}.${compactUtc(acceptedAt)}.${suffix()}`;
}

/** Formats a date like `20261120T020434Z`. */
function compactUtc(date: Date): string {
  return `${date.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}
