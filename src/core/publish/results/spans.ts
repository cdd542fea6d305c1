import type { CoreContext } from '../../context.ts';
import type { Owner } from '../../storage/identity.ts';
import type { Span, SpanAttributes } from '../../tracing/span.ts';
import type { TraceContext } from '../../tracing/trace-context.ts';
import type { DestinationResult } from './result.ts';

/** Starts a span for one destination of a run. Returns null in a dry run or if tracing is off. */
export function destinationSpan(
  { tracer }: Pick<CoreContext, 'tracer'>,
  { pipelineId, destinationId }: Owner,
  { dryRun, runId, trace }: { dryRun: boolean; runId?: string; trace?: TraceContext },
): Span | null {
  if (tracer?.isOn !== true || dryRun) return null;
  const run: SpanAttributes = runId === undefined ? {} : { 'waybill.run_id': runId };
  return tracer.start('destination', {
    parent: trace,
    kind: 'client',
    attributes: { 'waybill.pipeline_id': pipelineId, 'waybill.destination_id': destinationId, ...run },
  });
}

/** Ends the span and records how the publication went. */
export function endSpan(span: Span | null, { actions: all, error }: DestinationResult): void {
  if (span === null) return;
  const failure = error ?? all.find((action) => action.error !== null)?.error ?? null;
  const actions = all.filter(({ bundle }) => bundle !== null);
  if (failure !== null) span.fail(failure.code);
  const [only, ...others] = actions;
  if (only !== undefined && others.length === 0) {
    span.set({ 'waybill.action': only.action });
    if (only.release !== null) span.set({ 'waybill.release': only.release });
  }
  span.set({
    'waybill.bundles': actions.length,
    'waybill.outputs_written': sum(actions.map(({ outputsWritten }) => outputsWritten)),
    'waybill.outputs_linked': sum(actions.map(({ outputsLinked }) => outputsLinked)),
    'waybill.bytes_written': sum(actions.map(({ bytesWritten }) => bytesWritten)),
  });
  span.end();
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);
