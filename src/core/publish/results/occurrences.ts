import type { SourceBundle } from '../../bundle/source-bundle.ts';
import type { PublishedBundle } from '../../catalog/catalog.ts';
import { type ErrorRecord, publicError } from '../../lib/errors.ts';
import type { BundleFacts, EventData, EventError, Occurrence, OutputFacts } from '../../notify/event.ts';
import type { Owner } from '../../storage/identity.ts';
import type { ActionResult, PipelineResult } from './result.ts';

/*
 * Turns results into the events that notifiers send.
 */

// Standard Webhooks recommends keeping bodies below 20 kB. The fields other than the list need a few
// kilobytes at most.
export const maxListBytes = 16 * 1024;
const maxTextChars = 1_000;

/**
 * Returns the event for a bundle published to a destination, or null if nothing changed. Set
 * `reportsUnchanged` if this run had already published the outputs before it was interrupted; unchanged
 * outputs are then reported, too.
 */
export function publicationOccurrence(
  { pipelineId, destinationId }: Owner,
  bundle: SourceBundle,
  result: ActionResult,
  runId: string | null,
  { reportsUnchanged = false }: { reportsUnchanged?: boolean } = {},
): Occurrence | null {
  const about = {
    pipeline_id: pipelineId,
    destination_id: destinationId,
    destination_path: result.destinationPath,
    run_id: runId,
    bundle: bundleFacts(bundle),
    action: result.action,
  };
  if (result.error !== null) return failureOccurrence(about, result.error);
  if (result.action === 'skip_same' && !reportsUnchanged) return null;
  const { listed, omitted } = fitting(writtenFirst(result), result.outputs.length);
  return {
    type: 'bundle.published',
    data: {
      ...about,
      release: result.release,
      channel: result.channel,
      counts: {
        outputs: result.outputs.length,
        outputs_written: result.outputsWritten,
        outputs_linked: result.outputsLinked,
        outputs_kept: result.outputsKept,
        outputs_removed: result.outputsRemoved,
        bytes_written: result.bytesWritten,
        bytes_linked: result.bytesLinked,
        bytes_kept: result.bytesKept,
      },
      outputs: listed,
      outputs_omitted: omitted,
    },
  };
}

/**
 * Yields the published outputs, starting with those that were written, because the end of the list may be cut
 * off. A generator, because there can be a hundred thousand outputs.
 */
function* writtenFirst({ outputs, changes }: ActionResult): Iterable<OutputFacts> {
  const fates = new Map(changes.map(({ path, fate }) => [path, fate]));
  for (const wanted of [
    ['add', 'change'],
    ['keep', 'refresh'],
  ] as const)
    for (const output of outputs) {
      const fate = wanted.find((one) => one === (fates.get(output.path) ?? 'keep'));
      if (fate !== undefined) yield { ...output, fate };
    }
}

/** Returns the event for a destination that failed for a reason unrelated to a single bundle. */
export function destinationFailure(
  { pipelineId, destinationId }: Owner,
  error: ErrorRecord,
  runId: string | null,
): Occurrence {
  return failureOccurrence(
    { ...nowhere, pipeline_id: pipelineId, destination_id: destinationId, run_id: runId },
    error,
  );
}

/**
 * Returns the events for failures that affect all destinations: invalid bundles, or a source that cannot be
 * read.
 */
export function sourceFailures(
  { pipelineId, invalidBundles, error }: PipelineResult,
  runId: string | null,
): Occurrence[] {
  const about = { ...nowhere, pipeline_id: pipelineId, run_id: runId };
  const invalid = invalidBundles.map((one) =>
    failureOccurrence({ ...about, bundle: { path: one.bundle, name: null, created: null } }, one.error),
  );
  return error === null ? invalid : [...invalid, failureOccurrence(about, error)];
}

/**
 * Returns the event for a run that the daemon could not finish, because the worker thread crashed or the
 * staged upload is gone.
 */
export function runFailure(pipelineId: string, runId: string, error: ErrorRecord): Occurrence {
  return failureOccurrence({ ...nowhere, pipeline_id: pipelineId, run_id: runId }, error);
}

/** Returns the event for a run that failed with a temporary error and will be tried again. */
export function retryOccurrence({
  error,
  ...about
}: Omit<EventData['run.retry_scheduled'], 'error'> & { error: ErrorRecord }): Occurrence {
  return { type: 'run.retry_scheduled', data: { ...about, error: eventError(error) } };
}

/** Returns the event for a prune, or null if it removed nothing. */
export function pruneOccurrence(
  { pipelineId, destinationId }: Owner,
  removed: readonly { destinationPath: string; path: string }[],
  errors: number,
): Occurrence | null {
  if (removed.length === 0) return null;
  const { listed, omitted } = fitting(
    removed.map(({ destinationPath, path }) => ({ destination_path: destinationPath, path })),
    removed.length,
  );
  return {
    type: 'outputs.pruned',
    data: {
      pipeline_id: pipelineId,
      destination_id: destinationId,
      counts: { outputs_removed: removed.length, errors },
      outputs: listed,
      outputs_omitted: omitted,
    },
  };
}

/**
 * Returns the event for a bundle that was removed from a bundle path. It was removed either by a command or,
 * as an orphan, by the run `runId`.
 */
export function unpublishOccurrence(
  { pipelineId, destinationId }: Owner,
  { destinationPath, bundle, outputs }: Unpublished,
  { reason = 'unpublish', runId = null }: { reason?: 'unpublish' | 'orphan'; runId?: string | null } = {},
): Occurrence {
  const { listed, omitted } = fitting(
    outputs.map((path) => ({ path })),
    outputs.length,
  );
  return {
    type: 'bundle.unpublished',
    data: {
      pipeline_id: pipelineId,
      destination_id: destinationId,
      destination_path: destinationPath,
      run_id: runId,
      bundle: bundle === null ? null : { path: bundle.source.path, name: null, created: bundle.created },
      reason,
      counts: { outputs_removed: outputs.length },
      outputs: listed,
      outputs_omitted: omitted,
    },
  };
}

interface Unpublished {
  destinationPath: string;
  bundle: PublishedBundle | null;
  outputs: readonly string[];
}

export function testOccurrence(notifierId: string): Occurrence {
  return {
    type: 'notifier.test',
    data: { notifier_id: notifierId, message: 'a test of this notifier; nothing was published' },
  };
}

type Failure = EventData['bundle.publish_failed'];

const nowhere = {
  destination_id: null,
  destination_path: null,
  bundle: null,
  action: 'error',
} satisfies Partial<Failure>;

function failureOccurrence(about: Omit<Failure, 'error'>, error: ErrorRecord): Occurrence {
  return { type: 'bundle.publish_failed', data: { ...about, error: eventError(error) } };
}

function eventError(error: ErrorRecord): EventError {
  const { code, message, hint, retryable } = publicError(error);
  return { code, message: shortened(message), hint: hint === null ? null : shortened(hint), retryable };
}

function bundleFacts({ path, name, created, revision = null }: SourceBundle): BundleFacts {
  return { path, name, created, ...(revision === null ? {} : { revision }) };
}

/**
 * Returns as many of the first items as fit in `maxListBytes` of JSON, and how many of the `count` items are
 * left over.
 */
function fitting<T>(items: Iterable<T>, count: number): { listed: T[]; omitted: number } {
  let remainingBytes = maxListBytes;
  const listed: T[] = [];
  for (const item of items) {
    remainingBytes -= Buffer.byteLength(JSON.stringify(item)) + 1;
    if (remainingBytes < 0) break;
    listed.push(item);
  }
  return { listed, omitted: count - listed.length };
}

function shortened(text: string): string {
  return text.length <= maxTextChars ? text : `${text.slice(0, maxTextChars)}…`;
}
