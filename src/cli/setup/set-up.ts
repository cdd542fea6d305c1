import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Config, DestinationConfig, PipelineConfig } from '../../core/config/config.ts';
import type { LoadedConfig } from '../../core/config/load-config.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import {
  notifiersOf,
  referencedSecrets,
  requireSecrets,
  secretValues,
} from '../../core/config/secret-references.ts';
import { requireSafePaths } from '../../core/config/unsafe-paths.ts';
import type { CoreContext } from '../../core/context.ts';
import { systemClock } from '../../core/lib/clock.ts';
import { type Finding, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { parseRelativePath } from '../../core/lib/paths.ts';
import { loadSecrets, type Secrets } from '../../core/lib/secrets.ts';
import { suggestion } from '../../core/lib/text.ts';
import { destinationsWithChannel } from '../../core/releases/bundle-place.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import type { Output } from '../output/output.ts';
import { homeDirectory } from '../process/home-directory.ts';

export interface CommandContext {
  config: Config;
  context: CoreContext;
  warnings: Finding[];
}

interface SetUpOptions {
  output: Output;
  pipelineIds?: readonly string[];
  verbose?: boolean;
  signal?: AbortSignal;
  /** Whether the command sends events. If so, the secrets of its notifiers must be set. */
  notifies?: boolean;
  /** Whether the command is traced. If so, the secrets of the collector must be set. */
  traces?: boolean;
  /**
   * Whether the user gave the directories on the command line. If so, it is only a warning if another user
   * can write to them.
   */
  areDirectoriesNamed?: boolean;
}

/**
 * Loads the configuration and the secrets. Everything is checked before any storage is accessed, and all
 * errors are fatal. The credentials of the given pipelines must be set. By default, this means all pipelines.
 */
export async function setUp({
  config,
  ...options
}: SetUpOptions & { config: string }): Promise<CommandContext> {
  return prepare(await loadConfig(config, { home: homeDirectory() }), options);
}

/** The options of a command that is about a single pipeline. */
interface PipelineFlags {
  config: string;
  pipeline?: string | undefined;
  verbose: boolean;
}

/**
 * Like `setUp`, for a command that is about a single pipeline: the named one, or the only one in the
 * configuration. Throws `usage` if there are several.
 */
export async function setUpPipeline(
  { config, pipeline: named, verbose }: PipelineFlags,
  options: Omit<SetUpOptions, 'pipelineIds' | 'verbose'>,
): Promise<CommandContext & { pipeline: PipelineConfig }> {
  const loaded = await loadConfig(config, { home: homeDirectory() });
  const pipeline = onlyPipeline(loaded.config, named);
  return { ...(await prepare(loaded, { ...options, verbose, pipelineIds: [pipeline.id] })), pipeline };
}

/** Like `setUp`, but for a configuration that has already been loaded. */
export async function prepare(loaded: LoadedConfig, options: SetUpOptions): Promise<CommandContext> {
  const { config } = loaded;
  for (const id of options.pipelineIds ?? []) pipelineOf(config, id);
  const unsafe = requireSafePaths(loaded, { ...options, sudoUser: process.env['SUDO_UID'] });
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  requireSecrets(
    secrets,
    referencedSecrets(config, {
      notifiers: options.notifies === true,
      tracing: options.traces === true,
      signing: options.notifies === true,
      pipelineIds: options.pipelineIds && [...options.pipelineIds],
    }),
  );
  const log: Log = options.verbose === true ? await verboseLog(config, secrets) : options.output.log;
  const context: CoreContext = {
    clock: systemClock,
    log,
    secrets,
    openStorage: storageOpener({ clock: systemClock, log, secrets, signal: options.signal }),
    ...userCache(),
    signal: options.signal,
  };
  return { config, context, warnings: [...loaded.warnings, ...unsafe, ...secrets.warnings] };
}

/** Returns the user's cache directory. Users without a home directory have none. */
function userCache(): Pick<CoreContext, 'cacheDirectory'> {
  const configured = process.env['XDG_CACHE_HOME'] ?? '';
  if (path.isAbsolute(configured)) return { cacheDirectory: path.join(configured, 'waybill') };
  return existsSync(homeDirectory())
    ? { cacheDirectory: path.join(homeDirectory(), '.cache', 'waybill') }
    : {};
}

export function pipelineOf(config: Pick<Config, 'pipelines'>, id: string): PipelineConfig {
  return findById(config.pipelines, id, 'pipeline');
}

/**
 * Returns the pipeline with this name. If no name is given, returns the only pipeline, and throws a `usage`
 * error if there are several.
 */
export function onlyPipeline(
  { pipelines }: Pick<Config, 'pipelines'>,
  named: string | undefined,
): PipelineConfig {
  const [only, ...others] = pipelines;
  if (named !== undefined || only === undefined) return pipelineOf({ pipelines }, named ?? '');
  if (others.length === 0) return only;
  throw new WaybillError('usage', 'the configuration has several pipelines: name one', {
    hint: `--pipeline ${pipelines.map(({ id }) => id).join(' | ')}`,
  });
}

/** A pipeline and some or all of its destinations. */
export interface ChosenPipeline {
  pipeline: PipelineConfig;
  destinations: DestinationConfig[];
}

/**
 * Selects pipelines and destinations by name. The default is all of them. Pipelines that do not have any of
 * the destinations are left out. Throws a `usage` error if a name is unknown.
 */
export function chooseDestinations(
  config: Config,
  names: { pipeline?: readonly string[]; destination?: readonly string[]; channel?: string },
): ChosenPipeline[] {
  const { channel } = names;
  const chosen = chooseByName(config, names);
  if (channel === undefined) return chosen;
  const having = destinationsWithChannel(
    chosen.flatMap(({ destinations }) => destinations),
    channel,
  );
  return chosen
    .map(({ pipeline, destinations }) => ({
      pipeline,
      destinations: destinations.filter((destination) => having.includes(destination)),
    }))
    .filter(({ destinations }) => destinations.length > 0);
}

function chooseByName(
  { pipelines }: Config,
  names: { pipeline?: readonly string[]; destination?: readonly string[] },
): ChosenPipeline[] {
  const named = names.pipeline === undefined ? undefined : [...new Set(names.pipeline)];
  const among = named?.map((id) => pipelineOf({ pipelines }, id)) ?? pipelines;
  const wanted = names.destination;
  if (wanted === undefined)
    return among.map((pipeline) => ({ pipeline, destinations: pipeline.destinations }));
  const known = [...new Set(among.flatMap(({ destinations }) => destinations.map(({ id }) => id)))];
  for (const id of wanted) if (!known.includes(id)) throw unknownName('destination', id, known);
  return among
    .map((pipeline) => ({
      pipeline,
      destinations: pipeline.destinations.filter(({ id }) => wanted.includes(id)),
    }))
    .filter(({ destinations }) => destinations.length > 0);
}

export function destinationOf(pipeline: PipelineConfig, id: string): DestinationConfig {
  return findById(pipeline.destinations, id, `destination of pipeline "${pipeline.id}"`);
}

/**
 * Returns the destination with this name. If no name is given, returns the only destination, and throws a
 * `usage` error if there are several.
 */
export function onlyDestination(pipeline: PipelineConfig, named: string | undefined): DestinationConfig {
  const [only, ...others] = pipeline.destinations;
  if (named !== undefined || only === undefined) return destinationOf(pipeline, named ?? '');
  if (others.length === 0) return only;
  throw new WaybillError('usage', `pipeline "${pipeline.id}" has several destinations: name one`, {
    hint: `--destination ${pipeline.destinations.map(({ id }) => id).join(' | ')}`,
  });
}

function findById<T extends { id: string }>(items: readonly T[], id: string, what: string): T {
  const found = items.find((item) => item.id === id);
  if (found !== undefined) return found;
  throw unknownName(
    what,
    id,
    items.map((item) => item.id),
  );
}

/**
 * Creates the error for a name that does not exist in the configuration, with a suggestion if one is similar.
 */
export function unknownName(what: string, name: string, known: readonly string[]): WaybillError {
  return new WaybillError('usage', `there is no ${what} named "${name}"`, {
    hint: known.length === 0 ? 'the configuration has none' : suggestion(name, known),
  });
}

async function verboseLog(config: Config, secrets: Secrets): Promise<Log> {
  const [{ makeLogger }, { newRedaction }] = await Promise.all([
    import('../output/logger.ts'),
    import('../../core/lib/log.ts'),
  ]);
  const redaction = newRedaction();
  redaction.add(secretValues(config, secrets));
  return makeLogger({ verbose: true, color: false, pretty: false, redaction });
}

/** How long to wait for notifications to be delivered after everything has been published. */
const waitAtMostMs = 60_000;

/**
 * Runs `work` with the notifiers of these pipelines, and then waits until all events have been delivered or
 * have failed. A failed delivery is only a warning. In a dry run, the notifiers are checked, but no events
 * are sent.
 */
export async function withNotifier<T>(
  { config, context }: Pick<CommandContext, 'config' | 'context'>,
  options: { dryRun: boolean; pipelineIds?: readonly string[] | undefined },
  work: (context: CoreContext) => Promise<T>,
): Promise<{ result: T; warnings: Finding[] }> {
  const configs = notifiersOf(config, options.pipelineIds);
  if (configs.length === 0) return { result: await work(context), warnings: [] };
  const [{ openNotifiers }, { Notifier }, { collectWarnings }] = await Promise.all([
    import('../../core/notify/sink-kinds.ts'),
    import('../../core/notify/notifier.ts'),
    import('../../core/notify/outcome-warnings.ts'),
  ]);
  const { notifiers, warnings } = await openNotifiers(configs, context);
  if (options.dryRun) return { result: await work(context), warnings };

  const { clock, log, signal, tracer } = context;
  const collected = collectWarnings();
  const notifier = new Notifier({
    notifiers,
    clock,
    log,
    onOutcome: collected.onOutcome,
    stopping: signal,
    tracer,
  });
  let result: T;
  try {
    result = await work({
      ...context,
      notify: (occurrence, trace) => {
        context.notify?.(occurrence, trace);
        notifier.notify(occurrence, trace);
      },
    });
  } finally {
    await notifier.close(waitAtMostMs);
  }
  return { result, warnings: [...warnings, ...collected.warnings()] };
}

/**
 * Parses a bundle path from the command line. A slash at the end is ignored, because shells add one when they
 * complete directories. Throws a `usage` error if the path is invalid.
 */
export function bundlePathArgument(given: string): string {
  const path = given.replace(/^\.\/(?=.)/, '').replace(/(?<=[^/])\/+$/, '');
  const verdict = path === '.' ? { ok: true as const } : parseRelativePath(path);
  if (verdict.ok) return path;
  throw new WaybillError('usage', `"${path}" is not a bundle path: it ${verdict.reason}`, {
    hint: 'give it relative to the root of the destination, as waybill run names it after target=',
  });
}
