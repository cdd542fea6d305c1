import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord } from '../errors.ts';
import { finding, type Finding } from '../finding.ts';
import type { Owner } from '../identity.ts';
import { withReleasers } from '../lifecycle.ts';
import type { Occurrence } from '../notify/event.ts';
import { describeLocation } from '../storage/location.ts';
import type { MappedBundle } from './mapping.ts';
import { destinationFailure, publicationOccurrence } from './occurrences.ts';
import { publishBundle } from './publish-bundle.ts';
import type { PublishRequest } from './publish-request.ts';
import type { ActionResult, DestinationResult } from './result.ts';
import type { Selection } from './select-bundles.ts';

/**
 * Publishes the selected bundles to one destination, one after another, and notifies of each. Never throws: a
 * failure is in the result.
 */
export async function publishToDestination(
  context: CoreContext,
  owner: Owner,
  destination: DestinationConfig,
  select: (destination: DestinationConfig) => Promise<Selection>,
  request: PublishRequest,
): Promise<DestinationResult> {
  const { runId = null } = request;
  const notify = (occurrence: Occurrence | null): void => {
    if (!request.dryRun && occurrence !== null) context.notify?.(occurrence);
  };
  const result: DestinationResult = {
    destinationId: destination.id,
    location: describeLocation(destination.location),
    status: 'ok',
    actions: [],
    warnings: [],
    error: null,
  };
  const add = (bundle: SourceBundle, action: ActionResult): void => {
    result.actions.push(action);
    notify(publicationOccurrence(owner, bundle, action, runId));
    result.warnings.push(...rootWarnings(destination, action, request.dryRun));
    request.onProgress?.({ type: 'done', destinationId: destination.id, result: action });
  };
  try {
    const { bundles, warnings, error } = await select(destination);
    result.warnings.push(...warnings);
    result.error = error;
    await publishAll(context, owner, destination, bundles, request, add);
  } catch (error) {
    context.log.error({ err: error, destination: destination.id }, 'destination failed');
    result.error = errorRecord(error);
  }
  if (result.error !== null) notify(destinationFailure(owner, result.error, runId));
  if (result.error !== null || result.actions.some(({ error }) => error !== null)) result.status = 'failed';
  return result;
}

/** Opens the destination unless there is nothing to publish, and stops between bundles when asked to. */
async function publishAll(
  context: CoreContext,
  owner: Owner,
  destination: DestinationConfig,
  bundles: readonly MappedBundle<SourceBundle>[],
  request: PublishRequest,
  add: (bundle: SourceBundle, action: ActionResult) => void,
): Promise<void> {
  if (bundles.length === 0) return;
  const { dryRun } = request;
  await withReleasers(async (onRelease) => {
    const storage = await context.openStorage(destination.location, { readOnly: dryRun, dryRun });
    onRelease(() => storage.close());
    for (const { bundle, destinationPath } of bundles) {
      const publication = { bundle, owner, destination, destinationPath };
      add(bundle, await publishBundle(context, storage, publication, request));
      if (context.signal?.aborted === true) break;
    }
  });
}

function rootWarnings(destination: DestinationConfig, { action }: ActionResult, dryRun: boolean): Finding[] {
  if (destination.mapping !== 'fixed' || (action !== 'force_replace' && action !== 'replace_catalog'))
    return [];
  const what =
    action === 'force_replace'
      ? 'everything below the destination root'
      : 'the outputs of this pipeline at the destination root';
  const message = `target=.: ${what} ${dryRun ? 'would be' : 'was'} replaced (${describeLocation(destination.location)})`;
  return [finding('warning', 'destination_root_replaced', message)];
}
