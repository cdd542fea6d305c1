import type { PipelineConfig } from '../../core/config/config.ts';
import type { CoreContext } from '../../core/context.ts';
import { publishPipeline } from '../../core/publish/publish.ts';
import type { PublishRequest } from '../../core/publish/publish-request.ts';
import type { PipelineResult } from '../../core/publish/results/result.ts';
import { receivedTrace } from '../../core/tracing/trace-context.ts';
import type { CommandContext } from './set-up.ts';

/** How long to wait for the collector after the work is done. */
const waitAtMostMs = 3_000;

/**
 * Runs `work` with tracing, if it is configured, and sends the spans afterwards. Otherwise, none of the
 * tracing modules are loaded. Throws the same errors as `openTracing` before running `work`.
 */
export async function withTracing<T>(
  { config, context }: Pick<CommandContext, 'config' | 'context'>,
  work: (context: CoreContext) => Promise<T>,
): Promise<T> {
  if (config.tracing === null) return work(context);
  const [{ openTracing }, { productVersion }] = await Promise.all([
    import('../../core/tracing/open-tracing.ts'),
    import('../../api/version.ts'),
  ]);
  const env = process.env;
  const exportTimeoutMs = waitAtMostMs;
  const tracing = await openTracing(config.tracing, {
    ...context,
    env,
    version: productVersion(),
    exportTimeoutMs,
  });
  try {
    return await work({ ...context, tracer: tracing.tracer });
  } finally {
    await tracing.close(waitAtMostMs);
  }
}

/**
 * Like `publishPipeline`, but in a span. If a job runner has set `TRACEPARENT` and `TRACESTATE`, the span
 * becomes part of that trace. Dry runs have no span.
 */
export async function publishTraced(
  context: CoreContext,
  pipeline: PipelineConfig,
  request: PublishRequest,
): Promise<PipelineResult> {
  const { tracer, notify } = context;
  if (tracer === undefined || request.dryRun) return publishPipeline(context, pipeline, request);
  const span = tracer.start('run', {
    parent: receivedTrace(process.env['TRACEPARENT'], process.env['TRACESTATE']),
    kind: 'internal',
    attributes: { 'waybill.pipeline_id': pipeline.id },
  });
  const { trace } = span;
  // Unless they say otherwise, notifications are part of this span.
  const notifying =
    notify === undefined
      ? {}
      : {
          notify: ((occurrence, of = trace) => notify(occurrence, of)) satisfies CoreContext['notify'],
        };
  try {
    const result = await publishPipeline({ ...context, ...notifying }, pipeline, { ...request, trace });
    if (result.status === 'failed') span.fail(result.error?.code ?? 'failed');
    return result;
  } finally {
    span.end();
  }
}
