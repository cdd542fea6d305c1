import type { Config, PipelineConfig } from '../../../core/config/config.ts';
import type { Loaded } from '../../../core/config/load.ts';
import type { CoreContext } from '../../../core/context.ts';
import { type Clock, systemClock } from '../../../core/lib/clock.ts';
import { asWaybillError, type ErrorRecord, errorRecord, WaybillError } from '../../../core/lib/errors.ts';
import { silentLog } from '../../../core/lib/log.ts';
import { inParallel } from '../../../core/lib/parallel.ts';
import type { Secrets } from '../../../core/lib/secrets.ts';
import type { KeyPath } from '../../../core/lib/settings/check.ts';
import { currentUserName } from '../../../core/lib/unsafe-path.ts';
import { backendOf, describeLocation, type StorageLocation } from '../../../core/storage/backends.ts';
import { storageOpener } from '../../../core/storage/open-storage.ts';
import { columns, type Output, plural } from '../../output/output.ts';
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

/** Reports the first failure immediately, because a person is waiting at the terminal. */
const noRetries = { retries: 0, baseMs: 1, capMs: 1 };

/** Tries everything that the configuration names and leaves nothing behind. */
export async function probeConfiguration(
  { config, locate }: Loaded,
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
  return tryAll(trialsOf(config, context), { clock: systemClock, locate });
}

/**
 * Prints one line per probe. Below a failed probe, prints its position in the file, the error and the next
 * step.
 */
export function printTried(tried: readonly ProbeOutcome[], file: string, output: Output): void {
  const { style } = output;
  const failed = tried.filter(({ error }) => error !== null).length;
  const summary = failed === 0 ? style.green('all well') : style.red(`${failed} of them failed`);
  output.data(`probe  as ${currentUserName()}  ${plural(tried.length, 'place')}, ${summary}`);
  const rows = tried.map(({ pointer, subject, found }) => [
    found === null ? style.red('✗') : style.green('✓'),
    pointer,
    style.cyan(subject),
    found ?? '',
  ]);
  const lines = columns(rows, '  ');
  for (const [index, { line, column, error }] of tried.entries()) {
    output.data(lines[index] ?? '');
    if (error === null) continue;
    output.data(`    ${file}:${line}:${column}: ${error.message}`);
    if (error.hint !== null) output.data(`    ${style.cyan('next')}  ${error.hint}`);
  }
}

/**
 * Returns probes for everything outside the file that a configuration names, in the order of the file's
 * reference.
 */
function trialsOf(config: Config, context: CoreContext): ProbeTask[] {
  return [
    ...ofServer(config, context),
    ...ofTracing(config),
    ...config.pipelines.flatMap((pipeline, index) => ofPipeline(pipeline, ['pipelines', index], context)),
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
    ...ofTemplates(config),
  ];
}

/** The settings that name this machine's staging directory, with and without a shared queue. */
const inQueue = ['queue', 'scratch_directory'] as const;
const inStaging = ['staging', 'directory'] as const;

/**
 * Returns the probes that only the daemon needs: the secrets directory, staging if a pipeline accepts
 * uploads, and the queue.
 */
function ofServer({ pipelines, server, secrets }: Config, context: CoreContext): ProbeTask[] {
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

function ofTracing({ tracing }: Config): ProbeTask[] {
  const endpoint = tracing?.endpoint ?? null;
  if (endpoint === null) return [];
  const run = (signal: AbortSignal): Promise<string> => tryCollector(endpoint, signal);
  return [{ path: ['tracing', 'endpoint'], subject: endpoint, run }];
}

function ofPipeline(
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

function ofTemplates({ templates: { baseDir } }: Config): ProbeTask[] {
  if (baseDir === null) return [];
  return [{ path: ['templates', 'base_dir'], subject: baseDir, run: () => tryTemplates(baseDir) }];
}

/** One thing that the configuration names and that is to be tried. */
interface ProbeTask {
  /** The setting that names it. */
  path: KeyPath;
  /** The directory or server being tried, for display. Contains no secrets. */
  subject: string;
  /**
   * Runs the probe, leaves nothing behind, and returns the result as a clause. Throws if the probe fails. If
   * `signal` aborts, the probe closes its connections, and a later result is ignored.
   */
  run: (signal: AbortSignal) => Promise<string>;
}

/** A probe's outcome. */
export interface ProbeOutcome {
  /** A setting, named as in findings, such as `pipelines[0].source.path`. */
  pointer: string;
  /** The line in the file, starting at 1. */
  line: number;
  column: number;
  subject: string;
  /** null if it failed. */
  found: string | null;
  /** null if it succeeded. */
  error: ErrorRecord | null;
}

/** The maximum number of concurrent probes. Most of them wait for another machine. */
const maxConcurrentProbes = 8;
/** Time limit for one probe: twice as long as a failing server takes to report an error. */
const deadlineMs = 15_000;

/** Runs all probes and returns their results in the given order. Never throws. */
async function tryAll(
  trials: readonly ProbeTask[],
  { clock, locate }: { clock: Clock } & Pick<Loaded, 'locate'>,
): Promise<ProbeOutcome[]> {
  const ended: ProbeOutcome[] = [];
  await inParallel(trials.entries(), maxConcurrentProbes, async ([index, { path, subject, run }]) => {
    const place = { ...locate(path), subject };
    try {
      ended[index] = { ...place, found: await inTime(run, clock), error: null };
    } catch (error) {
      ended[index] = { ...place, found: null, error: errorRecord(explained(error)) };
    }
  });
  return ended;
}

async function inTime(run: ProbeTask['run'], clock: Clock): Promise<string> {
  const ending = new AbortController();
  return new Promise<string>((resolve, reject) => {
    const timer = clock.timeout(deadlineMs, () => {
      const message = `there was no answer within ${deadlineMs / 1000} s`;
      const hint =
        'look whether it is up, and whether a firewall between here and there drops the connection';
      const late = new WaybillError('storage_transient', message, { hint });
      ending.abort(late);
      reject(late);
    });
    run(ending.signal)
      .finally(() => timer.cancel())
      .then(resolve, reject);
  });
}

/** Adds a general hint to an error that has none. */
function explained(thrown: unknown): WaybillError {
  const error = asWaybillError(thrown);
  if (error.hint !== undefined) return error;
  return new WaybillError(error.code, error.message, {
    hint: 'correct this setting, or what it names',
    cause: error,
    findings: error.findings,
  });
}
