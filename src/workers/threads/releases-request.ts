import type { Config } from '../../core/config/config.ts';
import type { CoreContext } from '../../core/context.ts';
import { errorRecord, hasCode, WaybillError, withoutPaths } from '../../core/lib/errors.ts';
import { jsonDocument } from '../../core/lib/json-document.ts';
import type { RootIndex } from '../../core/publish/root-index/root-files.ts';
import type { TidiedPath } from '../../core/publish/unpublish/retire-releases.ts';
import {
  type BundlePlace,
  destinationNamed,
  type ListedPath,
  listReleases,
  openBundlePath,
  requireReleasesLayout,
  withDestination,
} from '../../core/releases/bundle-place.ts';
import { compareNamed, type PlaceChoice, showRelease } from '../../core/releases/details.ts';
import { type AppliedSwitch, switchAt } from '../../core/releases/switch-at.ts';
import type { Storage } from '../../core/storage/storage.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';

/**
 * A request about a destination's releases, made by an API client or the daemon itself. A catalog can have
 * half a million outputs, so this is handled on a thread, and the request is plain data.
 */
export type ReleasesRequest = Asked &
  (
    | { kind: 'list' }
    | { kind: 'show'; release: string }
    | { kind: 'diff'; from: string; to: string }
    | { kind: 'tidy' }
    | ({ kind: 'activate' } & Activation)
  );

interface Asked extends TraceContext {
  /** Identifies the request in the log, just like a run's id. */
  runId: string;
  pipelineId: string;
  destinationId: string;
  /** The bundle path at the destination. null means all of them, or the only one. */
  path: string | null;
}

export interface Activation {
  release: string;
  /** `rollback` keeps the previous release from automatically becoming current again. `promote` does not. */
  verb: 'promote' | 'rollback';
  dryRun: boolean;
}

export type ReleasesAnswer =
  | { kind: 'list'; paths: ListedPath[] }
  | { kind: 'document'; text: string }
  | { kind: 'tidy'; paths: TidiedPath[] }
  | ({ kind: 'activate'; destinationPath: string } & AppliedSwitch);

/**
 * Lists, compares or changes a destination's releases, in the same way as the command line does. Throws
 * `destination_not_found`, `no_releases`, `bundle_path_needed`, `not_published`, `release_not_found`,
 * `release_unusable`, `state_conflict`, or `destination_busy`. If the storage fails for a temporary reason,
 * throws `destination_unavailable`. Other storage errors are passed on.
 */
export async function answerReleases(
  context: CoreContext,
  { pipelines }: Pick<Config, 'pipelines'>,
  request: ReleasesRequest,
): Promise<ReleasesAnswer> {
  const { pipelineId, destinationId, path } = request;
  const pipeline = pipelines.find(({ id }) => id === pipelineId);
  if (pipeline === undefined)
    throw new WaybillError('pipeline_not_found', `the pipeline "${pipelineId}" is not configured here`);
  const destination = destinationNamed(pipeline, destinationId);
  requireReleasesLayout(destination);
  const named = path ?? undefined;
  const readOnly = request.kind !== 'tidy' && (request.kind !== 'activate' || request.dryRun);
  try {
    return await withDestination(context, destination, { readOnly }, async (root) => {
      if (request.kind === 'list')
        return { kind: 'list', paths: await listReleases(root, destination, named) };
      if (request.kind === 'show' || request.kind === 'diff')
        return { kind: 'document', text: await documentOf(root, { destination, path: named }, request) };
      if (request.kind === 'tidy') {
        const { tidyDestination } = await import('../../core/publish/unpublish/retire-releases.ts');
        return {
          kind: 'tidy',
          paths: await tidyDestination(context, root, destination, { dryRun: false, path }),
        };
      }
      const place = await openBundlePath(root, destination, named);
      const owner = { pipelineId, destinationId };
      const switched = await switchAt(context, owner, place, request);
      if (destination.rootIndex) await refreshIndex(context, root, { owner, destination }, place, request);
      return { kind: 'activate', destinationPath: place.destinationPath, ...switched };
    });
  } catch (error) {
    throw isPassing(error) ? unavailable(destinationId, error) : error;
  }
}

/**
 * Returns the JSON document of `waybill releases show` or `diff`. It is made on this thread, because it can
 * list half a million outputs.
 */
async function documentOf(
  root: Storage,
  choice: PlaceChoice,
  request: ReleasesRequest & { kind: 'show' | 'diff' },
): Promise<string> {
  const { pipelineId, destinationId } = request;
  const about = { pipelineId, destinationId };
  if (request.kind === 'diff')
    return jsonDocument(
      'release-diff',
      { ...about, ...(await compareNamed(root, choice, request)), warnings: [] },
      0,
    );
  const { error, ...shown } = await showRelease(root, choice, request.release);
  const disclosed = error && { ...error, message: withoutPaths(error.message) };
  return jsonDocument('release', { ...about, ...shown, error: disclosed, warnings: [] }, 0);
}

/**
 * Updates the index. Failures are only logged, because at this point, the other release is already current.
 */
async function refreshIndex(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  { destinationPath }: BundlePlace,
  { dryRun }: Activation,
): Promise<void> {
  const { refreshIfListed } = await import('../../core/publish/root-index/update-root-index.ts');
  for (const { message } of await refreshIfListed(context, root, index, [destinationPath], { dryRun }))
    context.log.warn({ destination: index.destination.id, destinationPath }, message);
}

/**
 * Reports whether the error is temporary. Retrying a switch is safe, because the current release does not
 * change until the switch succeeds.
 */
function isPassing(error: unknown): boolean {
  return (['storage_transient', 'lease_lost', 'commit_unknown'] as const).some((code) =>
    hasCode(error, code),
  );
}

function unavailable(destinationId: string, cause: unknown): WaybillError {
  return new WaybillError('destination_unavailable', `destination "${destinationId}" is not available`, {
    cause: new Error(errorRecord(cause).message, { cause }),
    hint: 'list its releases, then try again',
  });
}
