import type { Config, PipelineConfig } from '../../../core/config/config.ts';
import type { LoadedConfig } from '../../../core/config/load-config.ts';
import type { CoreContext } from '../../../core/context.ts';
import { type Clock, systemClock } from '../../../core/lib/clock.ts';
import {
  asWaybillError,
  type ErrorRecord,
  errorRecord,
  WaybillError,
  withDetails,
} from '../../../core/lib/errors.ts';
import { silentLog } from '../../../core/lib/log.ts';
import { inParallel } from '../../../core/lib/parallel.ts';
import type { Secrets } from '../../../core/lib/secrets.ts';
import type { KeyPath } from '../../../core/lib/settings/check.ts';
import { plural } from '../../../core/lib/text.ts';
import { currentUserName } from '../../../core/lib/unsafe-path.ts';
import { backendOf, describeLocation, type StorageLocation } from '../../../core/storage/backends.ts';
import { storageOpener } from '../../../core/storage/open-storage.ts';
import { columns, type Output } from '../../output/output.ts';
import { tryReadableDirectory, tryTemplates, tryWritableDirectory } from './probe-machine.ts';
import {
  minRoom,
  tryCollector,
  tryDatabase,
  tryDestination,
  tryNotifier,
  tryQueue,
  trySource,
} from './probe-services.ts';

/** Do not retry, because the user is waiting for the result. */
const noRetries = { retries: 0, baseMs: 1, capMs: 1 };

/** Connects to every service and tries every path in the configuration. Nothing is left behind. */
export async function probeConfiguration(
  { config, locate }: LoadedConfig,
  secrets: Secrets,
): Promise<ProbeOutcome[]> {
  const log = silentLog;
  const context: CoreContext = {
    clock: systemClock,
    log,
    secrets,
    openStorage: storageOpener(
      { clock: systemClock, log, secrets },
      { opening: noRetries, calls: noRetries },
    ),
  };
  return runProbes(probeTasks(config, context), { clock: systemClock, locate });
}

/**
 * Prints a line for each probe. If it failed, also prints where its setting is in the file, the error, and
 * what to do about it.
 */
export function printProbeOutcomes(outcomes: readonly ProbeOutcome[], file: string, output: Output): void {
  const { style } = output;
  const failed = outcomes.filter(({ error }) => error !== null).length;
  const summary = failed === 0 ? style.green('all well') : style.red(`${failed} of them failed`);
  output.data(`probe  as ${currentUserName()}  ${plural(outcomes.length, 'place')}, ${summary}`);
  const rows = outcomes.map(({ pointer, subject, found }) => [
    found === null ? style.red('✗') : style.green('✓'),
    pointer,
    style.cyan(subject),
    found ?? '',
  ]);
  const lines = columns(rows, '  ');
  for (const [index, { line, column, error }] of outcomes.entries()) {
    output.data(lines[index] ?? '');
    if (error === null) continue;
    output.data(`    ${file}:${line}:${column}: ${error.message}`);
    if (error.hint !== null) output.data(`    ${style.cyan('next')}  ${error.hint}`);
  }
}

/**
 * Returns a probe for everything in the configuration that is not part of the file itself. They are in the
 * order of the configuration reference.
 */
function probeTasks(config: Config, context: CoreContext): ProbeTask[] {
  return [
    ...serverProbes(config, context),
    ...tracingProbes(config),
    ...config.pipelines.flatMap((pipeline, index) => pipelineProbes(pipeline, ['pipelines', index], context)),
    ...config.notifiers.map((notifier, index) => ({
      path: ['notifiers', index],
      subject: `notifier "${notifier.id}" (${notifier.kind})`,
      run: (signal: AbortSignal) => tryNotifier(context, notifier, signal),
    })),
    ...config.databases.map((database, index) => ({
      path: ['databases', index],
      subject: `database "${database.name}" (${database.driver})`,
      run: () => tryDatabase(context, database),
    })),
    ...templateProbes(config),
  ];
}

/** The settings for the staging directory. The first one is used with a shared queue. */
const inQueue = ['queue', 'scratch_directory'] as const;
const inStaging = ['staging', 'directory'] as const;

/**
 * Returns probes for what only the daemon needs: the secrets directory, the queue, and the staging directory
 * if any pipeline receives uploads.
 */
function serverProbes({ pipelines, server, secrets }: Config, context: CoreContext): ProbeTask[] {
  const { staging, queue } = server;
  const trials: ProbeTask[] = [];
  if (secrets.directory !== null) {
    const { directory } = secrets;
    const run = async (): Promise<string> => tryReadableDirectory(directory);
    trials.push({ path: ['secrets', 'directory'], subject: directory, run });
  }
  const directory = (path: KeyPath, subject: string): ProbeTask => ({
    path,
    subject,
    run: async () => tryWritableDirectory(subject, { minRoom }),
  });
  const isShared = staging.shared !== null;
  if (pipelines.some(({ source }) => source.backend === 'http_upload'))
    trials.push(directory(['server', ...(isShared ? inQueue : inStaging)], staging.directory));
  if (staging.shared?.backend === 'local')
    trials.push(directory(['server', ...inStaging], staging.shared.path));
  else if (staging.shared !== null)
    trials.push(destinationAt(['server', 'staging'], staging.shared, context));
  if (queue.driver === 'embedded') trials.push(directory(['server', 'queue', 'directory'], queue.directory));
  if (queue.driver === 'bullmq')
    trials.push({
      path: ['server', 'queue', 'redis_url_env'],
      subject: `Redis (${queue.redisUrlEnv})`,
      run: () => tryQueue(context, queue),
    });
  return trials;
}

function tracingProbes({ tracing }: Config): ProbeTask[] {
  const endpoint = tracing?.endpoint ?? null;
  if (endpoint === null) return [];
  const run = (signal: AbortSignal): Promise<string> => tryCollector(endpoint, signal);
  return [{ path: ['tracing', 'endpoint'], subject: endpoint, run }];
}

function pipelineProbes(
  { source, destinations }: PipelineConfig,
  at: KeyPath,
  context: CoreContext,
): ProbeTask[] {
  const trials = destinations.map(({ location }, index) =>
    destinationAt([...at, 'destinations', index], location, context),
  );
  if (source.backend === 'http_upload') return trials;
  const path = [...at, 'source', backendOf(source).placeSetting];
  const run = (signal: AbortSignal): Promise<string> => trySource(context, source, signal);
  return [{ path, subject: describeLocation(source), run }, ...trials];
}

function destinationAt(at: KeyPath, location: StorageLocation, context: CoreContext): ProbeTask {
  return {
    path: [...at, backendOf(location).placeSetting],
    subject: describeLocation(location),
    run: (signal) => tryDestination(context, location, signal),
  };
}

function templateProbes({ templates: { baseDir } }: Config): ProbeTask[] {
  if (baseDir === null) return [];
  return [{ path: ['templates', 'base_dir'], subject: baseDir, run: () => tryTemplates(baseDir) }];
}

/** A directory or service to try. */
interface ProbeTask {
  /** The setting that it comes from. */
  path: KeyPath;
  /** The directory or server, for display. Must not contain secrets. */
  subject: string;
  /**
   * Runs the probe and returns a short description of the result. Throws if the probe fails. When `signal` is
   * aborted, the probe closes its connections, and its result no longer matters. Nothing is left behind.
   */
  run: (signal: AbortSignal) => Promise<string>;
}

export interface ProbeOutcome {
  /** The setting, written as in other findings: `pipelines[0].source.path`. */
  pointer: string;
  /** Its line in the file, starting at 1. */
  line: number;
  column: number;
  subject: string;
  /** The description of the result; null if the probe failed. */
  found: string | null;
  /** null if the probe succeeded. */
  error: ErrorRecord | null;
}

/** The maximum number of concurrent probes. They spend most of their time waiting for other machines. */
const maxConcurrentProbes = 8;
/** The time limit for a probe. Servers that fail usually report an error in half of this time. */
const deadlineMs = 15_000;

/** Runs all probes, and returns their results in the same order. Never throws. */
async function runProbes(
  trials: readonly ProbeTask[],
  { clock, locate }: { clock: Clock } & Pick<LoadedConfig, 'locate'>,
): Promise<ProbeOutcome[]> {
  const outcomes: ProbeOutcome[] = [];
  await inParallel(trials.entries(), maxConcurrentProbes, async ([index, { path, subject, run }]) => {
    const place = { ...locate(path), subject };
    try {
      outcomes[index] = { ...place, found: await withDeadline(run, clock), error: null };
    } catch (error) {
      outcomes[index] = { ...place, found: null, error: errorRecord(withHint(error)) };
    }
  });
  return outcomes;
}

async function withDeadline(run: ProbeTask['run'], clock: Clock): Promise<string> {
  const ending = new AbortController();
  return new Promise<string>((resolve, reject) => {
    const timer = clock.timeout(deadlineMs, () => {
      const message = `there was no answer within ${deadlineMs / 1000} s`;
      const hint = 'check whether it runs, and whether a firewall drops the connection';
      const late = new WaybillError('storage_transient', message, { hint });
      ending.abort(late);
      reject(late);
    });
    run(ending.signal)
      .finally(() => timer.cancel())
      .then(resolve, reject);
  });
}

/** Adds a general hint if the error does not have one. */
function withHint(thrown: unknown): WaybillError {
  const error = asWaybillError(thrown);
  if (error.hint !== undefined) return error;
  return withDetails(error, { hint: 'correct this setting, or what it names' });
}
