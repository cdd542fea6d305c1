import type { DestinationConfig, PipelineConfig } from '../../../core/config/config.ts';
import type { LoadedConfig } from '../../../core/config/load-config.ts';
import { overlapOf } from '../../../core/config/pipeline-relations.ts';
import type { CoreContext } from '../../../core/context.ts';
import { systemClock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { shellQuoted } from '../../../core/lib/text.ts';
import { promote } from '../../../core/publish/promote/promote.ts';
import {
  ownersOf,
  type PromotedContent,
  readPublished,
} from '../../../core/publish/promote/read-published.ts';
import { countActions, type PipelineResult, type RunResult } from '../../../core/publish/results/result.ts';
import { withDestination } from '../../../core/releases/bundle-place.ts';
import type { StorageRoot } from '../../../core/storage/backend.ts';
import { backendOf, type SourceLocation, type StorageLocation } from '../../../core/storage/backends.ts';
import type { Owner } from '../../../core/storage/identity.ts';
import { progressBar } from '../../output/progress.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import {
  bundlePathArgument,
  type CommandContext,
  destinationOf,
  onlyPipeline,
  prepare,
  setUp,
  withNotifier,
} from '../../setup/set-up.ts';
import { type CommandAct, withAudit } from '../../setup/with-audit.ts';
import { withTracing } from '../../setup/with-tracing.ts';
import type { promoteCommand } from './commands.ts';
import { type DestinationSettings, promotionText } from './destination-argument.ts';
import { withOptionHints, withoutSelection } from './option-hints.ts';
import { confirmForce, loadFromText, parseDestinationArgument, requireReleases } from './publish.ts';
import { reportRun } from './run-text.ts';

type PromoteOptions = OptionsFor<typeof promoteCommand>;

interface Prepared {
  setUp: CommandContext;
  pipeline: PipelineConfig;
  /** Returns the pipeline, but with a different id. Throws a `usage` error if the id is invalid. */
  pipelineNamed: (id: string) => Promise<PipelineConfig>;
  location: StorageLocation;
  from: PromotedContent;
  /** The owner of the content to promote. null if the destination must have exactly one owner. */
  owner: Owner | null;
  to: DestinationConfig;
}

/**
 * Implements `waybill promote`. Publishes the content of one destination to another. If the content is
 * incomplete or unknown, throws an error before it writes anything.
 */
export async function promoteContent(options: PromoteOptions, { output, signal }: Io): Promise<number> {
  const { verbose, dryRun, force, config } = options;
  const begunMs = systemClock.monotonic();
  const about = { output, verbose, signal };
  const prepared =
    config === undefined
      ? await preparePlaces(options, about)
      : await prepareConfigured({ ...options, config }, about);
  if (force && !dryRun && !options.yes) await confirmForce(1);
  const notifying = { dryRun, pipelineIds: [prepared.pipeline.id] };
  const notified = await withAudit(prepared.setUp, actOf(options, prepared), async (recorded) =>
    withTracing({ ...prepared.setUp, context: recorded }, async (traced) =>
      withNotifier({ ...prepared.setUp, context: traced }, notifying, async (context) =>
        carryOut(context, prepared, options),
      ),
    ),
  );
  const pipelines = [notified.result];
  const warnings = [...prepared.setUp.warnings, ...notified.warnings];
  const counted = { dryRun, force, pipelines, counters: countActions(pipelines), warnings };
  const result = config === undefined ? withOptionHints(counted) : counted;
  return reportRun(
    result,
    { output, signal },
    {
      verbose,
      begunMs,
      shown: withoutSelectionWarning(result),
      configured: `--config ${shellQuoted(config ?? 'FILE')}`,
    },
  );
}

/** Returns the audit record for the command itself. The publication has its own record. */
function actOf(
  { dryRun, force, allowRemovals, channel }: PromoteOptions,
  { pipeline, owner, to }: Prepared,
): CommandAct {
  const promotedFrom = owner === null ? null : `${owner.pipelineId}/${owner.destinationId}`;
  return {
    act: 'run.start',
    dryRun,
    pipelineId: pipeline.id,
    destinationId: to.id,
    detail: { promoted_from: promotedFrom, force, allow_removals: allowRemovals, channel: channel ?? null },
  };
}

/** Removes the warning about selected bundles if there was only one bundle. */
function withoutSelectionWarning(result: RunResult): RunResult {
  return result.pipelines.every(({ bundles }) => bundles === 1) ? withoutSelection(result) : result;
}

async function carryOut(
  context: CoreContext,
  { pipelineNamed, location, from, owner, to }: Prepared,
  { dryRun, force, allowRemovals, channel, config, pipeline: named, format }: PromoteOptions,
): Promise<PipelineResult> {
  return withDestination(context, { location }, { readOnly: true }, async (root) => {
    const published = await readPublished(root, from);
    const found = owner ?? onlyOwner(from.name, ownersOf(published), named);
    const pipeline = await pipelineNamed(found.pipelineId);
    const bar = progressBar(format === 'text', pipeline.id);
    const onProgress = dryRun ? undefined : bar.onProgress;
    const keepsPaths = config === undefined;
    const request = { dryRun, force, allowRemovals, channel, onProgress, keepsReleases: keepsPaths };
    const promotion = { from: from.name, published, owner: found, to: to.id, keepsPaths };
    try {
      return await promote(context, pipeline, promotion, request);
    } finally {
      bar.stop();
    }
  });
}

type SetUpContext = Omit<Parameters<typeof setUp>[0], 'config'>;

async function prepareConfigured(
  options: PromoteOptions & { config: string },
  about: SetUpContext,
): Promise<Prepared> {
  const { from, to, config, pipeline: named } = options;
  const unfit = (['releases', 'index', 'url', 'channelUrl', 'sshKey'] as const).find(
    (name) => options[name] !== undefined && options[name] !== false,
  );
  if (unfit !== undefined)
    throw new WaybillError(
      'usage',
      `--${optionNames[unfit] ?? unfit} is for places; with --config, the configuration decides it`,
      { hint: 'leave out one of the two' },
    );
  const ids = [from, to].map((name) => pipelineNameOf(name) ?? named);
  const pipelineIds = ids.filter((id) => id !== undefined);
  const prepared = await setUp({
    ...about,
    config,
    notifies: true,
    traces: true,
    pipelineIds: pipelineIds.length < ids.length ? undefined : pipelineIds,
  });
  const [source, target] = [from, to].map((name) => {
    const pipeline = onlyPipeline(prepared.config, pipelineNameOf(name) ?? named);
    return { pipeline, destination: destinationOf(pipeline, name.replace(/^[^/]*\//, '')) };
  }) as [ChosenDestination, ChosenDestination];
  const { location, mapping, releases, id: destinationId } = source.destination;
  refuseOverlap(from, location, to, target.destination.location);
  const layout = releases === null ? 'in_place' : 'releases';
  return {
    setUp: prepared,
    pipeline: target.pipeline,
    location,
    to: target.destination,
    pipelineNamed: async () => target.pipeline,
    from: { name: `"${from}"`, mapping, layout, ...chosenOf(options) },
    owner: { pipelineId: source.pipeline.id, destinationId },
  };
}

interface ChosenDestination {
  pipeline: PipelineConfig;
  destination: DestinationConfig;
}

const optionNames: Readonly<Record<string, string>> = { sshKey: 'ssh-key', channelUrl: 'channel-url' };

/** Returns the pipeline if the name is `pipeline/destination`, or undefined if it is something else. */
function pipelineNameOf(name: string): string | undefined {
  return /^([^/]*)\//.exec(name)?.[1];
}

async function preparePlaces(options: PromoteOptions, about: SetUpContext): Promise<Prepared> {
  const { from, to: toName } = options;
  requireReleases(options);
  const source = parseDestinationArgument(from, options);
  const target = parseDestinationArgument(toName, options);
  if (source.id === target.id) throw samePlace(from, toName);
  const load = (pipelineId: string): Promise<LoadedConfig> => loadPlaces(source, target, pipelineId, options);
  // Use a temporary id for now. The pipeline's id is in the catalog, which has not been read yet.
  const loaded = await load(options.pipeline ?? 'promoted').catch((error: unknown) => {
    const cause = error instanceof WaybillError ? error.cause : undefined;
    const isOverlap =
      cause instanceof WaybillError && cause.findings.some(({ code }) => code === 'overlapping_locations');
    throw isOverlap ? samePlace(from, toName) : error;
  });
  const prepared = await prepare(loaded, { ...about, areDirectoriesNamed: true });
  const pipeline = onlyPipeline(prepared.config, undefined);
  const [to] = pipeline.destinations as [DestinationConfig];
  const location = pipeline.source as SourceLocation;
  refuseOverlap(from, location, toName, to.location);
  return {
    setUp: prepared,
    pipeline,
    location,
    to,
    owner: null,
    pipelineNamed: async (id) => onlyPipeline((await load(id)).config, undefined),
    from: { name: `"${from}"`, mapping: null, layout: 'in_place', ...chosenOf(options) },
  };
}

async function loadPlaces(
  from: DestinationSettings,
  to: DestinationSettings,
  pipelineId: string,
  { index = 'auto', ...options }: PromoteOptions,
): Promise<LoadedConfig> {
  return loadFromText(promotionText(from, to, { ...options, pipelineId, index }), 'promote');
}

function chosenOf({ path, release }: PromoteOptions): Pick<PromotedContent, 'path' | 'release'> {
  return { path: path === undefined ? undefined : bundlePathArgument(path), release };
}

/** Returns the only owner, or the only one that belongs to `pipeline`. Throws `not_published` or `usage`. */
function onlyOwner(from: string, owners: readonly Owner[], pipeline: string | undefined): Owner {
  const among = owners.filter(({ pipelineId }) => pipeline === undefined || pipelineId === pipeline);
  const [only, ...others] = among;
  if (only === undefined)
    throw new WaybillError(
      'not_published',
      `${from} has no files that ${pipeline === undefined ? 'waybill' : `pipeline "${pipeline}"`} published`,
      {
        hint:
          owners.length === 0
            ? `check the first argument, or publish to ${from} first`
            : `known: ${named(owners)}`,
      },
    );
  if (others.length === 0) return only;
  throw new WaybillError('usage', `${from} has files of several owners: ${named(among)}`, {
    hint: 'name the pipeline with --pipeline, or promote with --config',
  });
}

const named = (owners: readonly Owner[]): string =>
  owners.map(({ pipelineId, destinationId }) => `${pipelineId}/${destinationId}`).join(', ');

/** Throws a `usage` error if both are the same location, or if one is inside the other. */
function refuseOverlap(fromName: string, from: StorageLocation, toName: string, to: StorageLocation): void {
  const place = (location: StorageLocation): StorageRoot => backendOf(location).place(location);
  if (overlapOf(place(from), place(to)) !== null) throw samePlace(fromName, toName);
}

function samePlace(from: string, to: string): WaybillError {
  return new WaybillError(
    'usage',
    `the destinations "${from}" and "${to}" are the same place, or one lies inside the other`,
    { hint: 'name two destinations that lie apart' },
  );
}
