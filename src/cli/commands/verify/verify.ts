import { formatSize } from '../../../core/settings/units.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../../../core/errors.ts';
import { withReleasers } from '../../../core/lifecycle.ts';
import { repair, type RepairReport } from '../../../core/maintain/repair.ts';
import { parseSubset, type Subset } from '../../../core/maintain/subset.ts';
import { verify, type VerifyReport } from '../../../core/maintain/verify.ts';
import type { UnfinishedRelease } from '../../../core/releases/unfinished.ts';
import { describeLocation } from '../../../core/storage/location.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { makeOutput, plural, type Output } from '../../output.ts';
import { progressBar } from '../../progress.ts';
import { chooseDestinations, setUp } from '../../set-up.ts';
import { endedBySignal, untilStopped } from '../../stop-signal.ts';

interface DestinationVerification {
  pipelineId: string;
  destinationId: string;
  location: string;
  clean: boolean;
  paths: (VerifyReport & { repair: RepairReport | null })[];
  error: ErrorRecord | null;
}

export type VerifyOptions = ConfiguredOptions & {
  pipeline?: string[];
  destination?: string[];
  subset?: string;
  repair?: boolean;
  dryRun?: boolean;
};

/** `waybill verify`: reads every recorded output again. */
export async function verifyDestinations(options: VerifyOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  const { subset, repair: repairs = false, dryRun = false } = options;
  const part = subset === undefined ? undefined : parseSubset(subset);
  if (subset !== undefined && part === undefined)
    throw new WaybillError('usage', `--subset ${subset} is not k/n`, {
      hint: 'the first of seven parts is 1/7, the last 7/7',
    });
  if (dryRun && !repairs)
    throw new WaybillError('usage', '--dry-run needs --repair beside it: verify alone writes nothing');
  const work = (signal?: AbortSignal): Promise<number> => verifyAll(options, output, part, signal);
  return repairs && !dryRun ? untilStopped(work) : endedBySignal(() => work());
}

async function verifyAll(
  options: VerifyOptions,
  output: Output,
  subset: Subset | undefined,
  signal: AbortSignal | undefined,
): Promise<number> {
  const { config, context, warnings } = await setUp({
    config: options.config,
    output,
    verbose: options.verbose,
    ...(signal === undefined ? {} : { signal }),
    ...(options.pipeline === undefined ? {} : { pipelineIds: options.pipeline }),
  });
  const chosen = chooseDestinations(config, options);
  const results: DestinationVerification[] = [];
  const bar = progressBar(!output.isJson);
  for (const { pipeline, destinations } of chosen) {
    for (const destination of destinations) {
      const { id, location, fileConcurrency } = destination;
      const base = { pipelineId: pipeline.id, destinationId: id, location: describeLocation(location) };
      const { repair: repairs = false, dryRun = false } = options;
      try {
        const paths = await withReleasers(async (onRelease) => {
          const root = await context.openStorage(location, { readOnly: !repairs || dryRun });
          onRelease(() => root.close());
          const lingerMs = destination.releases?.lingerMs ?? null;
          const reading = { concurrency: fileConcurrency, onBytes: bar.onBytes, lingerMs };
          const reports = await verify(root, subset === undefined ? reading : { ...reading, subset });
          const done = repairs ? await repair(context, { pipeline, destination, root, dryRun }, reports) : [];
          return reports.map((report, index) => ({ ...report, repair: done[index] ?? null }));
        });
        results.push({ ...base, clean: paths.every((path) => isClean(path, dryRun)), paths, error: null });
      } catch (error) {
        results.push({ ...base, clean: false, paths: [], error: errorRecord(error) });
      }
    }
  }
  bar.stop();
  const clean = results.every((result) => result.clean);
  if (output.isJson) output.json('verify', { clean, destinations: results, warnings });
  else {
    for (const warning of warnings) output.warn(warning);
    print(results, { clean, dryRun: options.dryRun === true }, output);
  }
  return clean ? 0 : 1;
}

function tell({ message, hint }: ErrorRecord, { data, style }: Output): void {
  data(`  ${style.red(message)}`);
  if (hint !== null) data(`  ${style.cyan('next:')} ${hint}`);
}

type PathResult = DestinationVerification['paths'][number];

/** Whether all is as recorded, if need be after the repair. */
function isClean({ differing, error, interrupted, repair: done }: PathResult, dryRun: boolean): boolean {
  const isMended = !dryRun && done !== null && done.error === null && done.unrepaired.length === 0;
  return (differing.length === 0 || isMended) && error === null && !interrupted;
}

function print(
  results: readonly DestinationVerification[],
  { clean, dryRun }: { clean: boolean; dryRun: boolean },
  output: Output,
): void {
  const { style } = output;
  for (const { pipelineId, destinationId, location, paths, error } of results) {
    output.data(`${style.cyan(`${pipelineId}/${destinationId}`)}  ${style.dim(location)}`);
    if (error !== null) tell(error, output);
    for (const path of paths) {
      const { destinationPath, verified, skipped, bytes, differing, interrupted } = path;
      const state = isClean(path, dryRun) ? style.green('✓') : style.red('✗');
      output.data(
        `  ${state} target=${destinationPath}  ${plural(verified, 'output')}, ${formatSize(bytes)} read${skipped === 0 ? '' : `, ${skipped} not in the subset`}`,
      );
      if (interrupted)
        output.data(
          `    ${style.yellow('an attempt did not finish; run `waybill run` (or upload again) to finish it')}`,
        );
      if (path.unfinishedRelease !== null)
        output.data(`    ${style.yellow(describeUnfinished(path.unfinishedRelease))}`);
      if (path.error !== null) output.data(`    ${style.red(path.error.message)}`);
      for (const { path: name, problem, expected, found } of differing)
        output.data(
          `    ${style.red(problem.padEnd(7))}  ${name}  expected ${expected}${found === null ? '' : `, found ${found}`}`,
        );
      if (path.repair !== null) printRepair(path.repair, dryRun, output);
    }
  }
  const mended = results.flatMap(({ paths }) => paths.flatMap(({ repair: done }) => done?.repaired ?? []));
  if (clean) {
    const whole = results.every(({ paths }) => paths.every(({ skipped }) => skipped === 0));
    const what = whole ? 'every recorded output is' : 'every recorded output of the subset is';
    const again = mended.length === 0 ? '' : `; ${plural(mended.length, 'output')} written again`;
    output.data(`${style.green('clean')}  ${what} as it was published${again}`);
    return;
  }
  const differing = results.flatMap(({ paths }) => paths.flatMap((path) => path.differing));
  const what =
    differing.length === 0
      ? 'not all could be verified'
      : `${plural(differing.length, 'output')} not as published`;
  output.data(`${style.red('failed')}  ${what}`);
  if (results.some(({ paths }) => paths.some(({ repair: done }) => done !== null))) return;
  // `run` trusts the records and would say `skip_same`.
  if (differing.length > 0)
    output.data(
      `${style.cyan('next:')} remove what differs, then \`waybill reconcile-state\` and \`waybill run\` publish it again; or \`waybill verify --repair\``,
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
  if (error === null) return;
  output.data(`    ${style.red(`not repaired: ${error.message}`)}`);
  if (error.hint !== null) output.data(`    ${style.cyan('next:')} ${error.hint}`);
}
