import type { DestinationConfig, PipelineConfig } from '../../../core/config/config.ts';
import { systemClock } from '../../../core/lib/clock.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../../core/lib/errors.ts';
import { withReleasers } from '../../../core/lib/lifecycle.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { repair, type RepairReport } from '../../../core/maintain/repair.ts';
import { parseSubset, type Subset, verify, type VerifyReport } from '../../../core/maintain/verify.ts';
import type { UnfinishedRelease } from '../../../core/releases/describe.ts';
import { describeLocation } from '../../../core/storage/backends.ts';
import { columns, type Output, type Style, tookText } from '../../output/output.ts';
import { progressBar } from '../../output/progress.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { chooseDestinations, type CommandContext, setUp } from '../../setup/set-up.ts';
import { withAudit } from '../../setup/with-audit.ts';
import type { verifyCommand } from './commands.ts';

interface DestinationVerification {
  pipelineId: string;
  destinationId: string;
  location: string;
  clean: boolean;
  paths: (VerifyReport & { repair: RepairReport | null })[];
  error: ErrorRecord | null;
}

type VerifyFlags = OptionsFor<typeof verifyCommand>;

/** Implements `waybill verify`. Reads all published files and compares them with the records. */
export async function verifyDestinations(options: VerifyFlags, { output, signal }: Io): Promise<number> {
  const { signatures, config: file, places, repair: repairs, dryRun, verbose } = options;
  if (signatures !== undefined) {
    if (repairs || options.subset !== undefined)
      throw new WaybillError('usage', '--signatures cannot be used with --repair or --subset', {
        hint: 'run waybill verify twice',
      });
    return (await import('./verify-signatures.ts')).verifySigned({ ...options, signatures }, output);
  }
  if (file === undefined || places.length > 0)
    throw new WaybillError('usage', 'missing option --config <file>: configuration file (YAML)', {
      hint: 'to check destinations: waybill verify --config FILE; to check signatures: waybill verify PATH_OR_URL --signatures KEY',
    });
  const subset = subsetOf(options);
  if (dryRun && !repairs)
    throw new WaybillError('usage', '--dry-run needs --repair: verify alone writes nothing', {
      hint: 'omit --dry-run, or add --repair',
    });
  const prepared = await setUp({ config: file, output, verbose, signal, pipelineIds: options.pipeline });
  const begunMs = systemClock.monotonic();
  const results: DestinationVerification[] = [];
  const bar = progressBar(!output.isJson, 'verify');
  const verifying = { subset, repairs, dryRun, onBytes: bar.onBytes };
  for (const { pipeline, destinations } of chooseDestinations(prepared.config, options))
    for (const destination of destinations)
      results.push(await verifyOne(prepared, pipeline, destination, verifying));
  bar.stop();
  const clean = results.every((result) => result.clean);
  const durationMs = systemClock.monotonic() - begunMs;
  output.result('verify', { clean, destinations: results, warnings: prepared.warnings }, () =>
    print(results, { clean, dryRun, durationMs }, output),
  );
  return clean ? 0 : 1;
}

function subsetOf({ subset }: VerifyFlags): Subset | undefined {
  const part = subset === undefined ? undefined : parseSubset(subset);
  if (subset === undefined || part !== undefined) return part;
  throw new WaybillError('usage', `--subset ${subset} is not k/n`, {
    hint: 'the first of seven parts is 1/7, the last 7/7',
  });
}

/** Verifies a destination and, if requested, repairs it. If that fails, the error is part of the result. */
async function verifyOne(
  setUp: CommandContext,
  pipeline: PipelineConfig,
  destination: DestinationConfig,
  how: { subset: Subset | undefined; repairs: boolean; dryRun: boolean; onBytes: (bytes: number) => void },
): Promise<DestinationVerification> {
  const { subset, repairs, dryRun, onBytes } = how;
  const { id, location, fileConcurrency: concurrency, maxRate, releases } = destination;
  const owner = { pipelineId: pipeline.id, destinationId: id };
  const base = { ...owner, location: describeLocation(location) };
  try {
    const paths = await withReleasers(async (onRelease) => {
      const root = await setUp.context.openStorage(location, { readOnly: !repairs || dryRun, maxRate });
      onRelease(() => root.close());
      const lingerMs = releases?.lingerMs ?? null;
      const reports = await verify(root, { concurrency, onBytes, lingerMs, subset });
      const done = repairs
        ? await withAudit(
            setUp,
            { act: 'catalog.repair', dryRun, ...owner },
            (context) => repair(context, { pipeline, destination, root, dryRun }, reports),
            (all) => all.find((one) => one !== null && one.error !== null)?.error ?? null,
          )
        : [];
      return reports.map((report, index) => ({ ...report, repair: done[index] ?? null }));
    });
    return { ...base, clean: paths.every((path) => isClean(path, dryRun)), paths, error: null };
  } catch (error) {
    return { ...base, clean: false, paths: [], error: errorRecord(error) };
  }
}

type PathResult = DestinationVerification['paths'][number];

/** Reports whether everything matches the records, after the repair if there was one. */
function isClean({ differing, error, interrupted, repair: done }: PathResult, dryRun: boolean): boolean {
  const isMended = !dryRun && done !== null && done.error === null && done.unrepaired.length === 0;
  return (differing.length === 0 || isMended) && error === null && !interrupted;
}

interface VerifyText {
  clean: boolean;
  dryRun: boolean;
  durationMs: number;
}

function print(results: readonly DestinationVerification[], options: VerifyText, output: Output): void {
  const { style } = output;
  for (const { pipelineId, destinationId, location, paths, error } of results) {
    output.data(`${style.cyan(`${pipelineId}/${destinationId}`)}  ${style.dim(location)}`);
    if (error !== null) output.failure('failed', error, '  ');
    const lines = columns(
      paths.map((path) => rowOf(path, options.dryRun, style)),
      '  ',
    );
    paths.forEach((path, index) => printPath(path, lines[index] ?? '', options.dryRun, output));
  }
  printSummary(results, options, output);
}

function rowOf(path: PathResult, dryRun: boolean, style: Style): string[] {
  const { destinationPath, verified, skipped, bytes, differing } = path;
  const sign = isClean(path, dryRun) ? style.green('✓') : style.red('✗');
  const counts = [
    `${plural(verified, 'file')}, ${formatSize(bytes)} read`,
    ...(skipped === 0 ? [] : [`${skipped} not in the subset`]),
    ...(differing.length === 0 ? [] : [style.red(`${differing.length} not as published`)]),
  ];
  return [`${sign} target=${destinationPath}`, counts.join(', ')];
}

function printPath(path: PathResult, row: string, dryRun: boolean, output: Output): void {
  const { data, style } = output;
  data(row);
  if (path.interrupted)
    data(`    ${style.yellow('an attempt did not finish; to finish it, use waybill run or upload again')}`);
  if (path.unfinishedRelease !== null)
    data(`    ${style.yellow(describeUnfinished(path.unfinishedRelease))}`);
  if (path.error !== null) output.failure('failed', path.error, '    ');
  const rows = path.differing.map(({ path: name, problem, expected, found }) => {
    const sign = problem === 'missing' ? '-' : '~';
    const instead = found === null ? '' : `, found ${shortDigest(found)}`;
    return [
      `${style.red(sign)} ${name}`,
      `${problem.replaceAll('_', ' ')}: expected ${shortDigest(expected)}${instead}`,
    ];
  });
  for (const line of columns(rows, '    ')) data(line);
  if (path.repair !== null) printRepair(path.repair, dryRun, output);
}

/** Shortens digests to 12 digits. With `--format json`, they are not shortened. */
function shortDigest(text: string): string {
  return text.replace(/(sha256:[0-9a-f]{12})[0-9a-f]{52}/g, '$1…');
}

function printSummary(
  results: readonly DestinationVerification[],
  { clean, durationMs }: VerifyText,
  { data, style }: Output,
): void {
  const paths = results.flatMap((result) => result.paths);
  const files = paths.reduce((sum, { verified }) => sum + verified, 0);
  const bytes = paths.reduce((sum, path) => sum + path.bytes, 0);
  const read = `${plural(files, 'file')}, ${formatSize(bytes)} read in ${tookText(durationMs)}`;
  if (clean) {
    const repaired = paths.flatMap(({ repair: done }) => done?.repaired ?? []);
    const isWhole = paths.every(({ skipped }) => skipped === 0);
    const what = isWhole ? 'every recorded output is' : 'every recorded output of the subset is';
    const again = repaired.length === 0 ? '' : `; ${plural(repaired.length, 'file')} written again`;
    data(`${style.green('clean')}  ${what} as it was published${again} (${read})`);
    return;
  }
  const differing = paths.flatMap((path) => path.differing);
  const what =
    differing.length === 0
      ? 'not all could be verified'
      : `${plural(differing.length, 'file')} not as published`;
  data(`${style.red('failed')}  ${what} (${read})`);
  if (paths.some(({ repair: done }) => done !== null)) return;
  // `run` would not find these differences, because it only compares records.
  if (differing.length > 0)
    data(
      `${style.cyan('next')}    remove the different files, then publish them again with waybill reconcile-state and waybill run; or run waybill verify --repair`,
    );
}

function describeUnfinished({ state, removedAfter }: UnfinishedRelease): string {
  const what =
    state === 'abandoned'
      ? 'abandoned release: its publication was interrupted, and no reader has it'
      : 'unfinished release: another process may be writing it, and no reader has it';
  return removedAfter === null ? what : `${what}; the first run after ${removedAfter} removes it`;
}

function printRepair({ repaired, unrepaired, error }: RepairReport, dryRun: boolean, output: Output): void {
  const { style } = output;
  const verb = dryRun ? 'would be written again' : 'written again';
  for (const { path, from } of repaired) output.data(`    ${style.green(verb)}  ${path}  from ${from}`);
  for (const { path, reason } of unrepaired)
    output.data(`    ${style.red('not repaired')}  ${path}  ${reason}`);
  if (error !== null) output.failure('not repaired', error, '    ');
}
