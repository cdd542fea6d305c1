import type { PipelineConfig } from '../../../core/config/config.ts';
import type { CoreContext } from '../../../core/context.ts';
import type { Clock } from '../../../core/lib/clock.ts';
import { type ErrorRecord, WaybillError } from '../../../core/lib/errors.ts';
import { nextTry, runPauses } from '../../../core/lib/retry.ts';
import { parseDuration } from '../../../core/lib/settings/sizes-and-durations.ts';
import type { Occurrence } from '../../../core/notify/event.ts';
import { withinRunTimeout } from '../../../core/publish/deadlines.ts';
import type { PublishRequest } from '../../../core/publish/publish-request.ts';
import type { DestinationResult, PipelineResult } from '../../../core/publish/results/result.ts';
import type { TraceContext } from '../../../core/tracing/trace-context.ts';
import { publishTraced } from '../../setup/with-tracing.ts';

export interface RetryLimits {
  /** How long to keep retrying after the first failure, in milliseconds. 0 to try only once. */
  forMs: number;
  /** Prints the reason for a retry and when it is due. */
  note: (text: string) => void;
  /** Returns a number in [0, 1). For tests. */
  random?: () => number;
}

/**
 * Parses the `--retry-for` option, in milliseconds. Returns 0 if it is absent. Throws a `usage` error if it
 * is invalid.
 */
export function retryForOf(text: string | undefined): number {
  const ms = text === undefined ? 0 : parseDuration(text);
  if (ms !== undefined) return ms;
  throw new WaybillError('usage', `--retry-for: "${text}" is not a duration with a unit`, {
    hint: 'write it like 90s or 30m',
  });
}

/**
 * Publishes a pipeline. Retries destinations that failed with a temporary error, as the daemon does. If
 * interrupted by a signal, returns the last result instead of rejecting. Failures are only sent to notifiers
 * if there is no retry.
 */
export async function publishWithRetries(
  context: CoreContext,
  pipeline: PipelineConfig,
  request: PublishRequest & { destinationIds: readonly string[] },
  tries: RetryLimits,
): Promise<PipelineResult> {
  const { notify } = context;
  if (tries.forMs === 0) return publishOnce(context, pipeline, request);
  let pendingOccurrences: [Occurrence, TraceContext | undefined][] = [];
  const holding =
    notify === undefined
      ? context
      : {
          ...context,
          notify: (occurrence: Occurrence, trace?: TraceContext) => {
            if (isPassing(occurrence)) pendingOccurrences.push([occurrence, trace]);
            else notify(occurrence, trace);
          },
        };
  const result = await retryPublish(request.destinationIds, { ...tries, ...context }, (destinationIds) => {
    pendingOccurrences = [];
    return publishOnce(holding, pipeline, { ...request, destinationIds });
  });
  for (const [occurrence, trace] of pendingOccurrences) notify?.(occurrence, trace);
  return result;
}

/** Publishes once. The pipeline's `run_timeout` applies. */
async function publishOnce(
  context: CoreContext,
  pipeline: PipelineConfig,
  request: PublishRequest,
): Promise<PipelineResult> {
  const { onProgress: report = () => undefined } = request;
  return withinRunTimeout(context, pipeline, report, (signal, onProgress) =>
    publishTraced({ ...context, signal }, pipeline, { ...request, onProgress }),
  );
}

/** Publishes to these destinations until no temporary errors are left, or until the time is up. */
export async function retryPublish(
  destinationIds: readonly string[],
  { forMs, note, clock, signal, random }: RetryLimits & { clock: Clock; signal?: AbortSignal },
  publish: (destinationIds: readonly string[]) => Promise<PipelineResult>,
): Promise<PipelineResult> {
  let startedAt = clock.monotonic();
  let result = await publish(destinationIds);
  let until: number | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const [first, ...others] = result.destinations.flatMap(causeOf);
    const failedAt = clock.monotonic();
    const next = nextTry({ attempt, startedAt, failedAt, until }, forMs, { ...runPauses, random });
    if (first === undefined || signal?.aborted === true || next === null) return result;
    until = next.until;
    const pauseMs = next.at - failedAt;
    const { code, message } = first.error;
    note(`${first.id}: ${code}: ${message}; try ${attempt + 1} in ${Math.ceil(pauseMs / 1000)} s`);
    try {
      await clock.sleep(pauseMs, signal);
    } catch {
      return result;
    }
    const failed = [first, ...others].map(({ id }) => id);
    startedAt = clock.monotonic();
    result = mergeResults(result, await publish(failed));
  }
}

function causeOf({ destinationId, error, actions }: DestinationResult): { id: string; error: ErrorRecord }[] {
  const errors = [error, ...actions.map((action) => action.error)];
  const cause = errors.find((one) => one?.retryable === true);
  return cause === undefined || cause === null ? [] : [{ id: destinationId, error: cause }];
}

/** Returns the latest result for each destination. */
function mergeResults(before: PipelineResult, last: PipelineResult): PipelineResult {
  const latest = new Map(last.destinations.map((one) => [one.destinationId, one]));
  const destinations = before.destinations.map((one) => latest.get(one.destinationId) ?? one);
  const hasFailed = destinations.some(({ status }) => status === 'failed') || last.invalidBundles.length > 0;
  return { ...last, destinations, status: hasFailed ? 'failed' : last.status };
}

function isPassing({ type, data }: Occurrence): boolean {
  return type === 'bundle.publish_failed' && data.error.retryable;
}
