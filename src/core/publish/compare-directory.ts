import path from 'node:path';
import { loadBundle } from '../bundle/discover.ts';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { AutoManifestConfig, DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { WaybillError } from '../lib/errors.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import type { BundlePlace } from '../releases/bundle-place.ts';
import { catalogOf, differenceBetween, type ReleaseDifference } from '../releases/describe.ts';
import type { ReleaseId } from '../releases/release.ts';
import { readReleases } from '../releases/releases-store.ts';
import { findBundles } from './find-bundles.ts';
import { planOutputs } from './outputs.ts';

interface ComparedDestination {
  pipeline: PipelineConfig;
  destination: DestinationConfig;
  place: BundlePlace;
}

/**
 * Returns the changes readers would see if `directory` were published in place of a release. A directory
 * without a manifest counts as a single bundle. Writes nothing. Throws `invalid_bundle`, `state_conflict` if
 * a catalog is invalid, or an error from the storage or file system.
 */
export async function compareDirectory(
  context: CoreContext,
  { pipeline, destination, place: { storage, destinationPath } }: ComparedDestination,
  { from, directory }: { from: ReleaseId; directory: string },
): Promise<ReleaseDifference> {
  const { outputs: before } = await catalogOf(storage, from);
  const { current } = await readReleases(storage);
  const published = current === null ? [] : (await catalogOf(storage, current)).outputs;
  const planned = await withBundle(context, pipeline, directory, async (bundle) =>
    planOutputs(
      { ...bundle, path: destinationPath },
      {
        owner: { pipelineId: pipeline.id, destinationId: destination.id },
        destination,
        destinationPath,
        recorded: published,
      },
    ),
  );
  if (destination.workflow === 'replacement') return differenceBetween(before, planned);
  const paths = new Set<string>(planned.map(({ path: name }) => name));
  // An additive release keeps the current release's files.
  const carried = published.filter(({ path: name }) => !paths.has(name));
  return differenceBetween(
    before,
    [...planned, ...carried].sort((a, b) => compareCodeUnits(a.path, b.path)),
  );
}

const defaultManifest: AutoManifestConfig = { include: [], exclude: [], links: 'refuse' };

async function withBundle<T>(
  context: CoreContext,
  { id, source, sourceId, sceneMaps, autoManifest = defaultManifest }: PipelineConfig,
  directory: string,
  work: (bundle: SourceBundle) => Promise<T>,
): Promise<T> {
  const location = { backend: 'local' as const, path: directory };
  return withReleasers(async (onRelease) => {
    const storage = await context.openStorage(location, { readOnly: true, mustExist: true, dryRun: true });
    onRelease(() => storage.close());
    // Name the bundle as `push` would for an upload pipeline, and as a run would otherwise.
    const name = source.backend === 'http_upload' ? path.basename(directory) : id;
    const found = await findBundles(
      context,
      storage,
      { id: name, source: location, autoManifest },
      { dryRun: true },
    );
    const [candidate] = found.candidates;
    if (found.invalid[0] !== undefined) throw found.invalid[0].error;
    if (candidate === undefined) throw new WaybillError('bundle_not_found', `"${directory}" has no bundle`);
    return work(await loadBundle(storage, candidate, { backend: source.backend, id: sourceId, sceneMaps }));
  });
}
