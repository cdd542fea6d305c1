import { type BundleSource, type Discovery, loadBundle } from '../bundle/discover.ts';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { type ErrorRecord, errorRecord, finding } from '../lib/errors.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import { destinationsWithChannel } from '../releases/bundle-place.ts';
import type { SourceLocation } from '../storage/backends.ts';
import type { Storage } from '../storage/storage.ts';
import { withinDiscoveryTimeout } from './deadlines.ts';
import { findBundles, openSource } from './find-bundles.ts';
import { type OrphanTask, settleOrphans, type SourceListing } from './orphans.ts';
import type { PublishRequest } from './publish-request.ts';
import { publishToDestination } from './publish-to-destination.ts';
import { emptyDestination, withDestinationFailure } from './results/action-result.ts';
import { sourceFailures } from './results/occurrences.ts';
import type { DestinationResult, PipelineResult } from './results/result.ts';
import {
  BundleLoader,
  selectFromSource,
  selectLoaded,
  type Selector,
  type SourceContent,
} from './select-bundles.ts';

/*
 * The entry points to publishing, which `waybill run` and the daemon call.
 */

/**
 * Publishes the bundles of a source to a pipeline's destinations, all at the same time. If one destination
 * fails, the others still go ahead. Failures of the source or a destination are part of the result. Upload
 * pipelines are skipped with a warning. The only error thrown is `channel_not_found`.
 */
export async function publishPipeline(
  context: CoreContext,
  pipeline: PipelineConfig,
  request: PublishRequest,
): Promise<PipelineResult> {
  const { source } = pipeline;
  if (source.backend === 'http_upload') return skipped(pipeline);
  // Fail on an unknown channel before opening anything.
  chosenDestinations(pipeline, request);
  const result = await publishFromSource(context, pipeline, source, request).catch((error: unknown) =>
    unreadSource(pipeline, request, errorRecord(error)),
  );
  if (!request.dryRun)
    for (const failure of sourceFailures(result, request.runId ?? null)) context.notify?.(failure);
  return result;
}

/**
 * Publishes bundles that have been loaded already, such as uploads. Failures of a destination are part of the
 * result. The only error thrown is `channel_not_found`.
 */
export async function publishBundles(
  context: CoreContext,
  pipeline: PipelineConfig,
  bundles: readonly SourceBundle[],
  request: PublishRequest,
): Promise<PipelineResult> {
  const destinations = await publishToAll(context, pipeline, selectLoaded(bundles), request);
  return withStatus({
    ...emptyResult(pipeline),
    bundles: bundles.length,
    destinations,
    warnings: bundles.flatMap(({ warnings }) => warnings),
  });
}

type ReadSource = SourceContent & Pick<Discovery, 'warnings'>;

async function publishFromSource(
  context: CoreContext,
  pipeline: PipelineConfig,
  source: SourceLocation,
  request: PublishRequest,
): Promise<PipelineResult> {
  return withReleasers(async (onRelease) => {
    const { dryRun } = request;
    const storage = await openSource(context, { ...pipeline, source }, { dryRun });
    onRelease(() => storage.close());
    const { sourceId: id, sceneMaps, signatures } = pipeline;
    const origin = { backend: source.backend, id, sceneMaps, signatures };
    const read = async (): Promise<ReadSource> =>
      withinDiscoveryTimeout(context, pipeline, async (signal) =>
        readSource(await findBundles({ ...context, signal }, storage, pipeline, { dryRun }), storage, origin),
      );
    const content = await read();
    const { candidates, invalid, loader, warnings } = content;
    const selector: Selector = {
      select: async (destination) => selectFromSource(destination, content),
      selectAgain: async (destination) => selectFromSource(destination, await read()),
    };
    const destinations = await publishToAll(context, pipeline, selector, request);
    const loaded = await loader.outcome();
    const bundles = candidates.length + invalid.length;
    const published = withStatus({
      ...emptyResult(pipeline),
      bundles,
      destinations,
      warnings: [...warnings, ...loaded.warnings, ...(bundles === 0 ? [noBundles] : [])],
      invalidBundles: [...invalid, ...loaded.invalid],
    });
    // A channel is temporary, so publishing to one should never remove orphans.
    if (request.channel !== undefined) return published;
    return withOrphans(context, pipeline, published, request, {
      source: origin,
      listing: listingOf(content),
      listAgain: async () => listingOf(await read()),
    });
  });
}

/**
 * Deals with orphans after publishing to all destinations. If any publication failed, no orphan is removed.
 */
async function withOrphans(
  context: CoreContext,
  pipeline: PipelineConfig,
  published: PipelineResult,
  request: PublishRequest,
  { source, ...listings }: { source: BundleSource } & Pick<OrphanTask, 'listing' | 'listAgain'>,
): Promise<PipelineResult> {
  const hasFailed = published.status === 'failed';
  const destinations = await Promise.all(
    published.destinations.map(async (result) => {
      const destination = pipeline.destinations.find(({ id }) => id === result.destinationId);
      if (destination === undefined) return result;
      const from = { owner: { pipelineId: pipeline.id, destinationId: destination.id }, source };
      return settleOrphans(context, { destination, from, hasFailed, ...listings }, result, request);
    }),
  );
  return withStatus({ ...published, destinations });
}

function listingOf({ candidates, invalid, warnings }: ReadSource): SourceListing {
  return { candidates, invalid: invalid.map(({ bundle }) => ({ path: bundle })), warnings };
}

function readSource(
  { candidates, invalid, warnings }: Discovery,
  storage: Storage,
  origin: BundleSource,
): ReadSource {
  return {
    candidates,
    invalid: invalid.map(({ path, error }) => ({ bundle: path, error: errorRecord(error) })),
    loader: new BundleLoader(async (candidate) => loadBundle(storage, candidate, origin)),
    warnings,
  };
}

async function publishToAll(
  context: CoreContext,
  pipeline: PipelineConfig,
  selector: Selector,
  request: PublishRequest,
): Promise<DestinationResult[]> {
  return Promise.all(
    chosenDestinations(pipeline, request).map(async (destination) => {
      const owner = { pipelineId: pipeline.id, destinationId: destination.id };
      return publishToDestination(context, owner, destination, selector, request);
    }),
  );
}

function chosenDestinations(
  { destinations }: PipelineConfig,
  { destinationIds, channel }: PublishRequest,
): DestinationConfig[] {
  const chosen = destinations.filter(({ id }) => destinationIds?.includes(id) ?? true);
  return channel === undefined ? chosen : destinationsWithChannel(chosen, channel);
}

/** Reports the source error on every destination. */
function unreadSource(pipeline: PipelineConfig, request: PublishRequest, error: ErrorRecord): PipelineResult {
  const destinations = chosenDestinations(pipeline, request).map((destination) =>
    withDestinationFailure(emptyDestination(destination), destination, error),
  );
  return { ...emptyResult(pipeline), status: 'failed', destinations, error };
}

const noBundles = finding(
  'warning',
  'no_bundles',
  'the source has no bundle, because no directory in it has a manifest.json; to publish the source as it is, set manifest: auto under source: in the configuration; to write a manifest, run waybill pack --manifest-only DIRECTORY',
);

function emptyResult({ id }: PipelineConfig): PipelineResult {
  return {
    pipelineId: id,
    status: 'ok',
    bundles: 0,
    invalidBundles: [],
    destinations: [],
    warnings: [],
    error: null,
  };
}

function withStatus(result: PipelineResult): PipelineResult {
  const failed =
    result.invalidBundles.length > 0 || result.destinations.some(({ status }) => status === 'failed');
  return { ...result, status: failed ? 'failed' : 'ok' };
}

function skipped(pipeline: PipelineConfig): PipelineResult {
  const notice = finding(
    'warning',
    'upload_pipeline_skipped',
    `pipeline "${pipeline.id}" accepts uploads, so a run skips it; waybill serve publishes what waybill push sends`,
  );
  return { ...emptyResult(pipeline), status: 'skipped', warnings: [notice] };
}
