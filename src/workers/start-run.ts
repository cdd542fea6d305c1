import type { Clock } from '../core/clock.ts';
import { digestOf } from '../core/digest.ts';
import type { TraceContext } from '../core/tracing/trace-context.ts';
import type { AcceptedRun, AdmissionRequest, JobQueue } from './queue.ts';
import { newRunId } from './run-id.ts';

// Starting a run carries no data, so whoever uses a key again repeats the request.
const sameRequest = digestOf('{}');

/**
 * Queues a run of a pipeline that has a source of its own, for whatever asks for it: a request, a schedule.
 * With an idempotency key the run is started once, however many callers ask; the others get its record with
 * `replayed: true`. A schedule on several hosts uses its time as the key.
 *
 * `trace` is the span that the run belongs to.
 *
 * Throws `queue_full`, `shutting_down`, `idempotency_in_progress` and `queue_unavailable`. Does not check
 * that the pipeline exists and has a source.
 */
export async function startRun(
  { queue, clock }: { queue: JobQueue; clock: Clock },
  request: AdmissionRequest,
  trace: TraceContext = {},
): Promise<AcceptedRun> {
  const { pipelineId } = request;
  const admission = await queue.reserve(request);
  try {
    const runId = newRunId(pipelineId, clock.now());
    return await admission.accept({ runId, pipelineId, staged: null, ...trace }, sameRequest);
  } finally {
    await admission.release();
  }
}
