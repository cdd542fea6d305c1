import { errorMessage, type Finding, WaybillError } from '../../../core/lib/errors.ts';
import { parseDuration } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { feedDocument, type FeedResult, notFed } from '../../../weather/feed/feed-document.ts';
import { feedForever, feedOnce } from '../../../weather/feed/feed-sources.ts';
import { decoded, feedFile, filesAt, maxFileBytes } from '../../../weather/feed/sources/document-files.ts';
import type { WritableDatabase } from '../../../weather/feed/tables/upsert.ts';
import { columns, type Output } from '../../output/output.ts';
import { ignoreOtherSignals } from '../../process/daemon-process.ts';
import { listenForStop } from '../../process/stop-signal.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { type CommandContext, setUp } from '../../setup/set-up.ts';
import type { feedCommand } from './commands.ts';
import { configFileOf } from './config-file.ts';
import { openFeedDatabase } from './open-target.ts';

type FeedFlags = OptionsFor<typeof feedCommand>;

/** The context for loading weather data, whether it comes from files or from the configured sources. */
interface FeedSession {
  prepared: CommandContext;
  target: WritableDatabase;
  report: FeedReport;
  signal: AbortSignal;
}

/**
 * Implements `waybill weather feed`. If files are given, loads them and exits. Otherwise, polls the
 * configured sources, either once or until it gets SIGINT or SIGTERM, which counts as success. SIGHUP and
 * SIGUSR2 are ignored.
 */
export async function feedWeather(options: FeedFlags, { output, signal }: Io): Promise<number> {
  const { paths, name, once } = options;
  const intervalMs = intervalOf(options);
  if (paths.length > 0)
    return withDatabase({ output, options, signal, kind: 'files' }, (feeding) =>
      feedPaths(feeding, paths, name),
    );
  if (once) return withDatabase({ output, options, signal, kind: 'once' }, feedConfiguredOnce);
  ignoreOtherSignals(() =>
    output.note('SIGHUP: the configuration is not read again; restart the feeder to apply it'),
  );
  const stopping = new AbortController();
  const stop = listenForStop((received) => {
    output.note(`${received}: stopping; a second signal ends it immediately`);
    stopping.abort(new WaybillError('aborted', `stopped by ${received}`));
  });
  try {
    const endless = { output, options, signal: stopping.signal, kind: 'endless' } as const;
    await withDatabase(endless, (feeding) => feedUntilStopped(feeding, intervalMs, output));
    return 0;
  } finally {
    stop.release();
  }
}

function intervalOf({ interval, once, paths }: FeedFlags): number | null {
  if (interval === undefined) return null;
  if (once || paths.length > 0)
    throw new WaybillError('usage', '--interval cannot be combined with --once or with files', {
      hint: 'it sets how often the configured sources are polled',
    });
  const ms = parseDuration(interval);
  if (ms === undefined || ms < 1000 || ms > 86_400_000)
    throw new WaybillError('usage', `--interval is "${interval}", which is not an interval`, {
      hint: 'expected a duration from 1s to 24h, such as 5m',
    });
  return ms;
}

async function withDatabase(
  how: { output: Output; options: FeedFlags; signal: AbortSignal; kind: 'files' | 'once' | 'endless' },
  work: (feeding: FeedSession) => Promise<void>,
): Promise<number> {
  const { output, options, signal, kind } = how;
  const { verbose, createTables: create } = options;
  const config = configFileOf(options.config);
  const prepared = await setUp({ config, output, verbose, signal, pipelineIds: [] });
  if (!output.isJson) for (const warning of prepared.warnings) output.warn(warning);
  if (kind !== 'files') sourcesOf(prepared);
  const target = await openFeedDatabase(prepared.config, prepared.context.secrets, { create });
  try {
    const report = feedReport(output, { isEndless: kind === 'endless', verbose });
    await work({ prepared, target, report, signal });
    return report.finish(prepared.warnings);
  } finally {
    await target.close();
  }
}

async function feedPaths(
  { target, report, signal }: FeedSession,
  paths: readonly string[],
  name: string,
): Promise<void> {
  for (const path of paths) {
    const files = path === '-' ? ['-'] : await filesAt(path);
    for (const file of files) {
      signal.throwIfAborted();
      report.add(await (file === '-' ? feedStandardInput(target, name) : feedFile(target, file)));
    }
  }
}

async function feedStandardInput(target: WritableDatabase, name: string): Promise<FeedResult> {
  const place = 'standard input';
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > maxFileBytes) return notFed(place, 'failed', `it is larger than ${maxFileBytes} bytes`);
    chunks.push(chunk);
  }
  try {
    const text = decoded(Buffer.concat(chunks));
    return await feedDocument(target, { place, name, text, receivedAt: null });
  } catch (error) {
    if (error instanceof WaybillError) throw error;
    return notFed(place, 'failed', errorMessage(error));
  }
}

async function feedConfiguredOnce({ prepared, target, report, signal }: FeedSession): Promise<void> {
  const { clock } = prepared.context;
  const config = sourcesOf(prepared);
  await feedOnce({ target, config, clock, signal, onResult: (fed) => report.add(fed) });
}

async function feedUntilStopped(
  { prepared, target, report, signal }: FeedSession,
  intervalMs: number | null,
  output: Output,
): Promise<void> {
  const { clock, log } = prepared.context;
  const config = sourcesOf(prepared);
  output.note('feeding until stopped');
  await feedForever({
    target,
    config,
    clock,
    signal,
    intervalMs,
    onResult: (fed) => report.add(fed),
    onTrouble: (err, againAfterMs) =>
      log.warn({ err }, `feeding failed; trying again in ${Math.ceil(againAfterMs / 1000)} s`),
  });
}

function sourcesOf({ config: { weather } }: CommandContext): CommandContext['config']['weather']['feed'] {
  const { feed } = weather;
  if (feed.nws === null && feed.watch === null)
    throw new WaybillError('usage', 'there are no files and no sources to load', {
      hint: 'name files or directories, or configure weather.feed.nws or weather.feed.watch',
    });
  return feed;
}

/**
 * Prints the result for each document. As text, each one is printed right away; as JSON, all are printed at
 * the end.
 */
interface FeedReport {
  add(fed: FeedResult): void;
  /** Prints a summary. Returns the exit code, which is 1 if anything failed or was skipped. */
  finish(warnings: readonly Finding[]): number;
}

const outcomes = ['loaded', 'unchanged', 'skipped', 'failed'] as const;

/**
 * @param isEndless Only count the documents instead of keeping them in memory, and print those that have not
 *   changed only if `verbose` is set.
 */
function feedReport(
  output: Output,
  { isEndless, verbose }: { isEndless: boolean; verbose: boolean },
): FeedReport {
  const counts = { loaded: 0, unchanged: 0, skipped: 0, failed: 0, leftOut: 0 };
  const documents: FeedResult[] = [];
  return {
    add(fed) {
      counts[fed.outcome] += 1;
      counts.leftOut += fed.leftOut.length;
      if (!isEndless) documents.push(fed);
      const isNews = fed.outcome === 'loaded' || fed.outcome === 'failed' || fed.leftOut.length > 0;
      if (!output.isJson && (isNews || !isEndless || verbose)) print(output, fed);
    },
    finish(warnings) {
      if (output.isJson) output.json('weather-feed', { ...counts, documents, warnings });
      else {
        const leftOut = counts.leftOut === 0 ? [] : [`${plural(counts.leftOut, 'item')} left out`];
        output.data([...outcomes.map((outcome) => `${counts[outcome]} ${outcome}`), ...leftOut].join(', '));
      }
      return counts.failed + counts.leftOut > 0 ? 1 : 0;
    },
  };
}

function print({ data, style }: Output, { outcome, place, families, reason, leftOut }: FeedResult): void {
  const mark = { loaded: style.green, unchanged: style.dim, skipped: style.dim, failed: style.red }[outcome];
  for (const line of columns([[mark(outcome.padEnd(9)), place, reason ?? families.join(', ')]])) data(line);
  for (const item of leftOut) data(`${' '.repeat(11)}${style.yellow('left out')}  ${item}`);
}
