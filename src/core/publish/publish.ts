import { discoverBundles, loadBundle, type BundleCandidate } from '../bundle/discover.ts';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../errors.ts';
import { finding, type Finding } from '../finding.ts';
import { withReleasers } from '../lifecycle.ts';
import type { Occurrence } from '../notify/event.ts';
import { destinationFailure, publicationOccurrence, sourceFailures } from './occurrences.ts';
import type { SourceLocation } from '../storage/backends.ts';
import { describeLocation, sourceId } from '../storage/location.ts';
import { mapBundles, type MappedBundle } from './mapping.ts';
import { publishBundle } from './publish-bundle.ts';
import type { ActionResult, DestinationResult, PipelineResult, Progress } from './result.ts';
import type { LeaseTimes } from '../lease/lease.ts';

export interface PublishOptions {
  pipeline: PipelineConfig;
  dryRun: boolean;
  force: boolean;
  /** Only these destinations; all where it is left out. */
  destinationIds?: readonly string[];
  onProgress?: (progress: Progress) => void;
  /** Of the upload that is published; for events. */
  runId?: string;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

/**
 * Publishes what a configured source holds to the pipeline's destinations, which work side by side and fail
 * apart. Never throws for what goes wrong at the source or at a destination: the result tells it.
 */
export async function publishPipeline(
  context: CoreContext,
  options: PublishOptions,
): Promise<PipelineResult> {
  const result = await publishFromSource(context, options);
  if (!options.dryRun)
    for (const failure of sourceFailures(result, options.runId ?? null)) context.notify?.(failure);
  return result;
}

async function publishFromSource(context: CoreContext, options: PublishOptions): Promise<PipelineResult> {
  const { pipeline } = options;
  const { source } = pipeline;
  if (source.backend === 'http_upload') return skipped(pipeline);
  try {
    return await withReleasers(async (onRelease) => {
      const storage = await context.openStorage(source, {
        readOnly: true,
        mustExist: true,
        dryRun: options.dryRun,
      });
      onRelease(() => storage.close());
      const found = await discoverBundles(storage);
      const invalid = found.invalid.map(({ path, error }) => ({ bundle: path, error: errorRecord(error) }));
      const load = loadOnce((candidate) =>
        loadBundle(storage, candidate, {
          backend: source.backend,
          id: sourceId(source),
          sceneMaps: pipeline.sceneMaps,
        }),
      );
      const destinations = await publishToAll(context, options, async (destination) =>
        selectFor(destination, found.candidates, invalid, load),
      );
      const broken = await load.failures();
      const warnings = [...found.warnings, ...(await load.warnings())];
      if (found.candidates.length + invalid.length === 0)
        warnings.push(
          finding(
            'warning',
            'no_bundles',
            'the source holds no bundle: no directory in it has a manifest.json',
          ),
        );
      return resultOf(pipeline, found.candidates.length + invalid.length, destinations, warnings, [
        ...invalid,
        ...broken,
      ]);
    });
  } catch (error) {
    return { ...resultOf(pipeline, 0, [], [], []), status: 'failed', error: errorRecord(error) };
  }
}

/** Publishes bundles that are at hand already, as uploads are. */
export async function publishBundles(
  context: CoreContext,
  options: PublishOptions & { bundles: readonly SourceBundle[] },
): Promise<PipelineResult> {
  const destinations = await publishToAll(context, options, async ({ mapping }) => {
    const { selected, warnings } = mapBundles(mapping, options.bundles);
    return {
      bundles: selected.map(({ bundle, destinationPath }) => ({ bundle, destinationPath })),
      warnings,
      error: null,
    };
  });
  const warnings = options.bundles.flatMap((bundle) => bundle.warnings);
  return resultOf(options.pipeline, options.bundles.length, destinations, warnings, []);
}

/** What one destination is to get. */
interface Selection {
  bundles: MappedBundle<SourceBundle>[];
  warnings: Finding[];
  error: ErrorRecord | null;
}

type InvalidBundle = PipelineResult['invalidBundles'][number];

/**
 * A bundle that is invalid keeps only itself from a destination that preserves paths. Where one is selected
 * by age, a manifest that cannot be read might be the newest, and publishing an older one in its place would
 * be a failure dressed as a success.
 */
async function selectFor(
  destination: DestinationConfig,
  candidates: readonly BundleCandidate[],
  invalid: readonly InvalidBundle[],
  load: BundleLoader,
): Promise<Selection> {
  const { selected, warnings } = mapBundles(destination.mapping, candidates);
  if (destination.mapping === 'fixed' && invalid[0] !== undefined) {
    const error = new WaybillError(
      'invalid_bundle',
      `"${invalid[0].bundle}" has an invalid manifest, so it is not known which bundle is the newest`,
      {
        hint: 'mend or remove that bundle',
      },
    );
    return { bundles: [], warnings, error: errorRecord(error) };
  }
  const bundles: MappedBundle<SourceBundle>[] = [];
  for (const { bundle: candidate, destinationPath } of selected) {
    const loaded = await load(candidate);
    if (loaded instanceof WaybillError) {
      if (destination.mapping === 'fixed') return { bundles: [], warnings, error: errorRecord(loaded) };
    } else bundles.push({ bundle: loaded, destinationPath });
  }
  return { bundles, warnings, error: null };
}

type BundleLoader = ((candidate: BundleCandidate) => Promise<SourceBundle | WaybillError>) & {
  failures: () => Promise<InvalidBundle[]>;
  warnings: () => Promise<Finding[]>;
};

/** Destinations share what is loaded, and none loads what no destination takes. */
function loadOnce(load: (candidate: BundleCandidate) => Promise<SourceBundle>): BundleLoader {
  const loaded = new Map<string, Promise<SourceBundle | WaybillError>>();
  const loader = (candidate: BundleCandidate): Promise<SourceBundle | WaybillError> => {
    const known = loaded.get(candidate.path);
    if (known !== undefined) return known;
    const loading = load(candidate).catch((error: unknown) => {
      if (error instanceof WaybillError && error.code === 'invalid_bundle') return error;
      throw error;
    });
    loaded.set(candidate.path, loading);
    return loading;
  };
  const all = async (): Promise<(readonly [string, SourceBundle | WaybillError])[]> =>
    Promise.all([...loaded].map(async ([path, loading]) => [path, await loading] as const));
  return Object.assign(loader, {
    failures: async () =>
      (await all()).flatMap(([bundle, outcome]) =>
        outcome instanceof WaybillError ? [{ bundle, error: errorRecord(outcome) }] : [],
      ),
    warnings: async () =>
      (await all()).flatMap(([, outcome]) => (outcome instanceof WaybillError ? [] : outcome.warnings)),
  });
}

async function publishToAll(
  context: CoreContext,
  options: PublishOptions,
  select: (destination: DestinationConfig) => Promise<Selection>,
): Promise<DestinationResult[]> {
  const { destinationIds } = options;
  const chosen = options.pipeline.destinations.filter(({ id }) => destinationIds?.includes(id) ?? true);
  return Promise.all(
    chosen.map((destination) => publishToDestination(context, options, destination, select)),
  );
}

async function publishToDestination(
  context: CoreContext,
  options: PublishOptions,
  destination: DestinationConfig,
  select: (destination: DestinationConfig) => Promise<Selection>,
): Promise<DestinationResult> {
  const owner = { pipelineId: options.pipeline.id, destinationId: destination.id };
  const { dryRun, runId = null } = options;
  const tell = (occurrence: Occurrence | null): void => {
    if (!dryRun && occurrence !== null) context.notify?.(occurrence);
  };
  const result: DestinationResult = {
    destinationId: destination.id,
    location: describeLocation(destination.location),
    status: 'ok',
    actions: [],
    warnings: [],
    error: null,
  };
  try {
    const { bundles, warnings, error } = await select(destination);
    result.warnings.push(...warnings);
    result.error = error;
    await withReleasers(async (onRelease) => {
      if (bundles.length === 0) return;
      const storage = await context.openStorage(destination.location, {
        readOnly: options.dryRun,
        dryRun: options.dryRun,
      });
      onRelease(() => storage.close());
      for (const { bundle, destinationPath } of bundles) {
        const publication = { ...options, bundle, destination, destinationPath, owner };
        const action = await publishBundle(context, storage, publication);
        result.actions.push(action);
        tell(publicationOccurrence(owner, bundle, action, runId));
        result.warnings.push(...rootWarnings(destination, action, options.dryRun));
        options.onProgress?.({ type: 'done', destinationId: destination.id, result: action });
        if (context.signal?.aborted === true) break;
      }
    });
  } catch (error) {
    context.log.error({ err: error, destination: destination.id }, 'destination failed');
    result.error = errorRecord(error);
  }
  if (result.error !== null) tell(destinationFailure(owner, result.error, runId));
  if (result.error !== null || result.actions.some(({ error }) => error !== null)) result.status = 'failed';
  return result;
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

function resultOf(
  { id }: PipelineConfig,
  bundles: number,
  destinations: DestinationResult[],
  warnings: Finding[],
  invalidBundles: InvalidBundle[],
): PipelineResult {
  const failed = invalidBundles.length > 0 || destinations.some(({ status }) => status === 'failed');
  return {
    pipelineId: id,
    status: failed ? 'failed' : 'ok',
    bundles,
    invalidBundles,
    destinations,
    warnings,
    error: null,
  };
}

function skipped(pipeline: PipelineConfig): PipelineResult {
  const notice = finding(
    'warning',
    'upload_pipeline_skipped',
    `pipeline "${pipeline.id}" takes uploads; \`waybill serve\` publishes it`,
  );
  return { ...resultOf(pipeline, 0, [], [notice], []), status: 'skipped' };
}

/** Which kind of source a pipeline must have to be read from here. */
export function readableSource(pipeline: PipelineConfig): SourceLocation {
  const { source } = pipeline;
  if (source.backend === 'http_upload')
    throw new WaybillError('usage', `pipeline "${pipeline.id}" takes uploads and has no source to read`, {
      hint: 'name a pipeline whose source is a local directory, SFTP or S3',
    });
  return source;
}
