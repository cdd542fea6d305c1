import { type Discovery, loadBundle } from '../../../core/bundle/discover.ts';
import type { CatalogState } from '../../../core/catalog/catalog.ts';
import { readState } from '../../../core/catalog/catalog-store.ts';
import type { DestinationConfig, PipelineConfig } from '../../../core/config/config.ts';
import type { CoreContext } from '../../../core/context.ts';
import { type ErrorRecord, errorRecord, type Finding, finding } from '../../../core/lib/errors.ts';
import type { Instant } from '../../../core/lib/instant.ts';
import { withReleasers } from '../../../core/lib/lifecycle.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { formatRate } from '../../../core/lib/settings/transfer-rate.ts';
import { plural } from '../../../core/lib/text.ts';
import { findBundles, openSource, readableSource } from '../../../core/publish/find-bundles.ts';
import { findOrphans, protectedPaths, type PublishedFrom } from '../../../core/publish/orphans.ts';
import { mapBundles } from '../../../core/publish/select-bundles.ts';
import { publishedState } from '../../../core/releases/describe.ts';
import { describeLocation } from '../../../core/storage/backends.ts';
import { parseBundlePath } from '../../../core/storage/key.ts';
import type { Storage } from '../../../core/storage/storage.ts';
import { subdirectory } from '../../../core/storage/wrappers/subdirectory.ts';
import { columns, type Output } from '../../output/output.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { setUpPipeline } from '../../setup/set-up.ts';
import type { inspectCommand } from './commands.ts';
import { hasAllRights, type PlaceProbe, printProbes, probePlaces } from './probe-places.ts';

interface BundleView {
  path: string;
  name: string | null;
  created: Instant | null;
  files: number;
  bytes: number;
  valid: boolean;
  error: ErrorRecord | null;
}

interface DestinationView {
  destinationId: string;
  location: string;
  mapping: DestinationConfig['mapping'];
  workflow: DestinationConfig['workflow'];
  /** Bytes per second; null if unlimited. */
  maxRate: number | null;
  targets: {
    bundle: string;
    destinationPath: string;
    /** The current release. null if there is none, or if the destination has no releases. */
    release: string | null;
    state: string;
    generation: number | null;
    outputs: number | null;
    interrupted: boolean;
  }[];
  /** Outputs that this pipeline published from bundles that are no longer in the source. */
  orphans: { destinationPath: string; outputs: number; bytes: number }[];
  error: ErrorRecord | null;
}

type InspectOptions = OptionsFor<typeof inspectCommand>;

/**
 * Implements `waybill inspect`. Shows a source and the state of its destinations, based on directory
 * listings, manifests and catalogs. It does not read the files themselves, and writes nothing except for the
 * small files of `--probe`.
 */
export async function inspect(options: InspectOptions, { output }: Io): Promise<number> {
  const { context, warnings, pipeline } = await setUpPipeline(options, { output });
  const source = readableSource(pipeline);
  return withReleasers(async (onRelease) => {
    const storage = await openSource(context, { ...pipeline, source }, { dryRun: true });
    onRelease(() => storage.close());
    const found = await findBundles(context, storage, pipeline, { dryRun: false });
    const bundles = await viewBundles(storage, found, pipeline, warnings);
    const destinations: DestinationView[] = [];
    for (const destination of pipeline.destinations)
      destinations.push(
        await viewDestination(context, destination, found, {
          owner: { pipelineId: pipeline.id, destinationId: destination.id },
          source: { backend: source.backend, id: pipeline.sourceId },
        }),
      );
    const probes = options.probe ? await probePlaces(context, pipeline, storage) : null;
    const [unread] = found.invalid;
    if (unread !== undefined && pipeline.destinations.some(({ mapping }) => mapping === 'fixed'))
      warnings.push(
        finding(
          'warning',
          'newest_unknown',
          `"${unread.path}" has an invalid manifest, so it is not known which bundle is the newest: waybill run fails at destinations with mapping fixed`,
        ),
      );
    const report = {
      pipelineId: pipeline.id,
      source: { backend: source.backend, location: describeLocation(source) },
      bundles,
      excluded: found.excluded,
      destinations,
      probes,
      warnings: [...warnings, ...found.warnings],
    };
    output.result('inspect', report, () => print(report, output));
    const works = destinations.every(({ error }) => error === null) && (probes ?? []).every(hasAllRights);
    return bundles.every(({ valid }) => valid) && works ? 0 : 1;
  });
}

/** Inspects the bundles of a source. Warnings about them are added to `warnings`. */
async function viewBundles(
  storage: Storage,
  found: Discovery,
  { source: { backend }, sourceId }: PipelineConfig,
  warnings: Finding[],
): Promise<BundleView[]> {
  const bundles: BundleView[] = found.invalid.map(({ path, error }) => unreadable(path, null, error));
  for (const candidate of found.candidates) {
    try {
      const bundle = await loadBundle(storage, candidate, {
        backend,
        id: sourceId,
      });
      warnings.push(...bundle.warnings);
      const bytes = bundle.files.reduce((sum, { size }) => sum + size, 0);
      bundles.push({
        path: bundle.path,
        name: bundle.name,
        created: bundle.created,
        files: bundle.files.length,
        bytes,
        valid: true,
        error: null,
      });
    } catch (error) {
      bundles.push(unreadable(candidate.path, candidate.created, error));
    }
  }
  bundles.sort((a, b) => (a.path < b.path ? -1 : 1));
  return bundles;
}

function unreadable(path: string, created: Instant | null, error: unknown): BundleView {
  return {
    path,
    name: null,
    created,
    files: 0,
    bytes: 0,
    valid: false,
    error: errorRecord(error),
  };
}

async function viewDestination(
  context: CoreContext,
  destination: DestinationConfig,
  found: Discovery,
  from: PublishedFrom,
): Promise<DestinationView> {
  const { id, mapping, workflow, location, releases, maxRate } = destination;
  const seen: DestinationView = {
    destinationId: id,
    location: describeLocation(location),
    mapping,
    workflow,
    maxRate,
    targets: [],
    orphans: [],
    error: null,
  };
  try {
    await withReleasers(async (onRelease) => {
      const storage = await context.openStorage(location, { readOnly: true, dryRun: true });
      onRelease(() => storage.close());
      for (const { bundle, destinationPath } of mapBundles(mapping, found.candidates).selected) {
        const at = subdirectory(storage, parseBundlePath(destinationPath));
        const { state, release } =
          releases === null ? await inPlace(at) : await publishedState(at, 'releases');
        seen.targets.push({ bundle: bundle.path, destinationPath, release, ...stateView(state) });
      }
      if (mapping === 'fixed') return;
      const { orphans } = await findOrphans(storage, from, protectedPaths(found), { counted: false });
      for (const { destinationPath, outputs, bytes } of orphans)
        seen.orphans.push({ destinationPath, outputs: outputs.length, bytes });
    });
  } catch (error) {
    seen.error = errorRecord(error);
  }
  return seen;
}

async function inPlace(at: Storage): Promise<{ state: CatalogState; release: null }> {
  return { state: (await readState(at)).state, release: null };
}

function stateView(state: CatalogState): {
  state: string;
  generation: number | null;
  outputs: number | null;
  interrupted: boolean;
} {
  if (state.kind !== 'valid')
    return { state: state.kind, generation: null, outputs: null, interrupted: false };
  const { generation, outputs, pending } = state.catalog;
  return { state: 'valid', generation, outputs: outputs.length, interrupted: pending !== null };
}

interface SourceReport {
  pipelineId: string;
  source: { backend: string; location: string };
  bundles: BundleView[];
  /** Paths that `manifest: auto` does not publish. Directories end with `/`. */
  excluded: readonly string[];
  destinations: DestinationView[];
  probes: PlaceProbe[] | null;
  warnings: Finding[];
}

function print(
  { pipelineId, source, bundles, excluded, destinations, probes }: SourceReport,
  output: Output,
): void {
  const { style } = output;
  output.data(`${style.bold(pipelineId)}  ${source.backend}  ${style.dim(source.location)}`);
  const rows = bundles.map(({ path, name, created, files, bytes, valid, error }) => [
    valid ? style.green('✓') : style.red('✗'),
    name === null || name === path ? path : `${path} (${name})`,
    created ?? '-',
    valid ? `${plural(files, 'file')}, ${formatSize(bytes)}` : style.red(error?.message ?? ''),
  ]);
  for (const line of columns(rows, '  ')) output.data(line);
  if (bundles.length === 0) output.data('  no bundles');
  for (const name of excluded) output.data(`  ${style.dim(`excluded  ${name}`)}`);
  for (const { destinationId, location, mapping, workflow, maxRate, ...found } of destinations) {
    const { targets, orphans, error } = found;
    const limit = maxRate === null ? '' : `, at most ${formatRate(maxRate)}`;
    output.data(`${style.cyan(destinationId)}  ${mapping}, ${workflow}${limit}  ${style.dim(location)}`);
    if (error !== null) output.data(`  ${style.red(error.message)}`);
    const states = targets.map((target) => [
      `target=${target.destinationPath}`,
      `from ${target.bundle}`,
      target.generation === null
        ? `state ${target.state}`
        : `${target.release === null ? `generation ${target.generation}` : `release ${target.release}`}, ${plural(target.outputs ?? 0, 'output')}`,
      target.interrupted ? style.yellow('interrupted; the next run finishes it') : '',
    ]);
    for (const line of columns(states, '  ')) output.data(line);
    const orphanRows = orphans.map(({ destinationPath, outputs, bytes }) => [
      `target=${destinationPath}`,
      style.yellow('orphan'),
      `${plural(outputs, 'output')}, ${formatSize(bytes)}; the source does not hold it any more`,
    ]);
    for (const line of columns(orphanRows, '  ')) output.data(line);
  }
  if (probes !== null) printProbes(probes, output);
}
