import type { Config, DestinationConfig, PipelineConfig } from '../../../core/config/config.ts';
import type { Loaded } from '../../../core/config/load.ts';
import { overlap } from '../../../core/config/pipeline-relations.ts';
import type { CoreContext } from '../../../core/context.ts';
import { systemClock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { promote } from '../../../core/publish/promote/promote.ts';
import {
  ownersOf,
  type PromotedContent,
  readPublished,
} from '../../../core/publish/promote/read-published.ts';
import type { PublishRequest } from '../../../core/publish/publish-request.ts';
import {
  allSucceeded,
  countActions,
  type PipelineResult,
  type RunResult,
} from '../../../core/publish/results/result.ts';
import { atDestination } from '../../../core/releases/place.ts';
import type { Place } from '../../../core/storage/backend.ts';
import { backendOf, type SourceLocation, type StorageLocation } from '../../../core/storage/backends.ts';
import type { Owner } from '../../../core/storage/identity.ts';
import { makeOutput } from '../../output/output.ts';
import { progressBar } from '../../output/progress.ts';
import { untilStopped } from '../../process/stop-signal.ts';
import type { CommonOptions } from '../../setup/command-options.ts';
import {
  destinationOf,
  givenBundlePath,
  pipelineOf,
  prepare,
  type SetUp,
  setUp,
  withNotifier,
} from '../../setup/set-up.ts';
import { withTracing } from '../../setup/with-tracing.ts';
import { type DestinationSettings, promotionText, type PublishSettings } from './given-destination.ts';
import {
  confirmForce,
  givenDestination,
  load,
  realPath,
  withOptionHints,
  withoutSelection,
} from './publish.ts';
import { heldBackExitCode, printRun, reportHeldBack } from './run-text.ts';

export interface PromoteOptions extends CommonOptions {
  config?: string;
  pipeline?: string;
  path?: string;
  release?: string;
  dryRun: boolean;
  force: boolean;
  allowRemovals: boolean;
  yes: boolean;
  releases: boolean;
  index?: PublishSettings['index'];
  url?: string;
  sshKey?: string;
}

/** The two destinations of a promotion, set up. */
interface Prepared {
  setUp: SetUp;
  pipeline: PipelineConfig;
  /** The pipeline with another id. Throws `usage` if the id is invalid. */
  pipelineNamed: (id: string) => Promise<PipelineConfig>;
  location: StorageLocation;
  from: PromotedContent;
  /** The owner of the content to promote; null for the only one that is found. */
  owner: Owner | null;
  to: DestinationConfig;
}

/**
 * `waybill promote`: publishes what one destination has to another. Throws before it writes anything if the
 * content of the first is incomplete or unknown.
 */
export async function promoteContent(
  fromName: string,
  toName: string,
  options: PromoteOptions,
): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  const begunMs = systemClock.monotonic();
  return untilStopped(async (signal) => {
    const about = { output, verbose: options.verbose, signal };
    const prepared =
      options.config === undefined
        ? await preparePlaces(fromName, toName, options, about)
        : await prepareConfigured(fromName, toName, { ...options, config: options.config }, about);
    if (options.force && !options.dryRun && !options.yes) await confirmForce(1);
    const ids = [prepared.pipeline.id];
    const notified = await withTracing(prepared.setUp, async (context) =>
      withNotifier(
        { ...prepared.setUp, context },
        { dryRun: options.dryRun, pipelineIds: ids },
        async (notifying) => carryOut(notifying, prepared, options),
      ),
    );
    const { dryRun, force } = options;
    const pipelines = [notified.result];
    const warnings = [...prepared.setUp.warnings, ...notified.warnings];
    const counted = { dryRun, force, pipelines, counters: countActions(pipelines), warnings };
    const result = options.config === undefined ? withOptionHints(counted) : counted;
    if (output.isJson) output.json('run', result);
    else
      printRun(shown(result), output, {
        verbose: options.verbose,
        stopped: signal.aborted,
        tookMs: systemClock.monotonic() - begunMs,
      });
    const isHeldBack = reportHeldBack(pipelines, output, `--config ${options.config ?? 'FILE'}`);
    if (!allSucceeded(pipelines)) return 1;
    return isHeldBack ? heldBackExitCode : 0;
  });
}

/** Leaves out the warning about the selected bundle if there was no choice. */
function shown(result: RunResult): RunResult {
  return result.pipelines.every(({ bundles }) => bundles === 1) ? withoutSelection(result) : result;
}

async function carryOut(
  context: CoreContext,
  { pipelineNamed, location, from, owner, to }: Prepared,
  { dryRun, force, allowRemovals, config, pipeline: named, format }: PromoteOptions,
): Promise<PipelineResult> {
  return atDestination(context, { location }, { readOnly: true }, async (root) => {
    const published = await readPublished(root, from);
    const found = owner ?? onlyOwner(from.name, ownersOf(published), named);
    const pipeline = await pipelineNamed(found.pipelineId);
    const bar = progressBar(format === 'text', pipeline.id);
    const request: PublishRequest = {
      ...{ dryRun, force, allowRemovals },
      ...(dryRun ? {} : { onProgress: bar.onProgress }),
    };
    const promotion = {
      from: from.name,
      published,
      owner: found,
      to: to.id,
      keepsPaths: config === undefined,
    };
    try {
      return await promote(context, pipeline, promotion, request);
    } finally {
      bar.stop();
    }
  });
}

type About = Omit<Parameters<typeof setUp>[0], 'config'>;

async function prepareConfigured(
  fromName: string,
  toName: string,
  options: PromoteOptions & { config: string },
  about: About,
): Promise<Prepared> {
  const unfit = (['releases', 'index', 'url', 'sshKey'] as const).find(
    (name) => options[name] !== undefined && options[name] !== false,
  );
  if (unfit !== undefined)
    throw new WaybillError(
      'usage',
      `--${unfit === 'sshKey' ? 'ssh-key' : unfit} is for places; with --config, the configuration decides it`,
      {
        hint: 'leave out one of the two',
      },
    );
  const prepared = await setUp({
    ...about,
    config: options.config,
    ...{ notifies: true, traces: true },
    ...(options.pipeline === undefined ? {} : { pipelineIds: [options.pipeline] }),
  });
  const pipeline = onlyPipeline(prepared.config, options.pipeline);
  const [source, to] = [destinationOf(pipeline, fromName), destinationOf(pipeline, toName)];
  refuseOverlap(fromName, source.location, toName, to.location);
  const layout = source.releases === null ? 'in_place' : 'releases';
  return {
    ...{ setUp: prepared, pipeline, location: source.location, to },
    pipelineNamed: async () => pipeline,
    from: { name: `"${fromName}"`, mapping: source.mapping, layout, ...chosenOf(options) },
    owner: { pipelineId: pipeline.id, destinationId: source.id },
  };
}

async function preparePlaces(
  fromName: string,
  toName: string,
  options: PromoteOptions,
  about: About,
): Promise<Prepared> {
  const [source, target] = [givenDestination(fromName, options), givenDestination(toName, options)];
  if (source.id === target.id) throw samePlace(fromName, toName);
  // The catalog has the id of the pipeline. It is not read yet.
  const loaded = await loadPlaces(source, target, options.pipeline ?? 'promoted', options).catch(
    (error: unknown) => {
      const cause = error instanceof WaybillError ? error.cause : undefined;
      const isOverlap =
        cause instanceof WaybillError && cause.findings.some(({ code }) => code === 'overlapping_locations');
      throw isOverlap ? samePlace(fromName, toName) : error;
    },
  );
  const prepared = await prepare(loaded, { ...about, areDirectoriesNamed: true });
  const pipeline = onlyPipeline(prepared.config, undefined);
  const [to] = pipeline.destinations as [DestinationConfig];
  const location = pipeline.source as SourceLocation;
  refuseOverlap(fromName, location, toName, to.location);
  return {
    ...{ setUp: prepared, pipeline, location, to, owner: null },
    pipelineNamed: async (id) =>
      onlyPipeline((await loadPlaces(source, target, id, options)).config, undefined),
    from: { name: `"${fromName}"`, mapping: null, layout: 'in_place', ...chosenOf(options) },
  };
}

async function loadPlaces(
  from: DestinationSettings,
  to: DestinationSettings,
  pipelineId: string,
  { releases, index = 'auto', url }: PromoteOptions,
): Promise<Loaded> {
  return load(promotionText(from, to, { pipelineId, releases, index, url }), 'promote');
}

function chosenOf({ path, release }: PromoteOptions): Pick<PromotedContent, 'path' | 'release'> {
  return { path: path === undefined ? undefined : givenBundlePath(path), release };
}

function onlyPipeline({ pipelines }: Config, named: string | undefined): PipelineConfig {
  const [only, ...others] = pipelines;
  if (named !== undefined || only === undefined) return pipelineOf({ pipelines }, named ?? '');
  if (others.length === 0) return only;
  throw new WaybillError('usage', 'the configuration has several pipelines: name one', {
    hint: `--pipeline ${pipelines.map(({ id }) => id).join(' | ')}`,
  });
}

/** The only owner, or the only one of the named pipeline. Throws `not_published` or `usage`. */
function onlyOwner(from: string, owners: readonly Owner[], pipeline: string | undefined): Owner {
  const among = owners.filter(({ pipelineId }) => pipeline === undefined || pipelineId === pipeline);
  const [only, ...others] = among;
  if (only === undefined)
    throw new WaybillError(
      'not_published',
      `${from} has no files that ${pipeline === undefined ? 'waybill' : `pipeline "${pipeline}"`} published`,
      { hint: owners.length === 0 ? `publish to ${from} first` : `known: ${named(owners)}` },
    );
  if (others.length === 0) return only;
  throw new WaybillError('usage', `${from} has files of several owners: ${named(among)}`, {
    hint: 'name the pipeline with --pipeline, or promote with --config',
  });
}

const named = (owners: readonly Owner[]): string =>
  owners.map(({ pipelineId, destinationId }) => `${pipelineId}/${destinationId}`).join(', ');

/** Throws `usage` if the places are the same, or one lies inside the other. */
function refuseOverlap(fromName: string, from: StorageLocation, toName: string, to: StorageLocation): void {
  const place = (location: StorageLocation): Place => {
    const { container, root } = backendOf(location).place(location);
    return { container, root: location.backend === 'local' ? realPath(root) : root };
  };
  if (overlap(place(from), place(to))) throw samePlace(fromName, toName);
}

function samePlace(from: string, to: string): WaybillError {
  return new WaybillError(
    'usage',
    `the destinations "${from}" and "${to}" are the same place, or one lies inside the other`,
    { hint: 'name two destinations that lie apart' },
  );
}
