import { formatSize } from '../../../core/settings/units.ts';
import { errorRecord, type ErrorRecord } from '../../../core/errors.ts';
import { withReleasers } from '../../../core/lifecycle.ts';
import { verify, type VerifyReport } from '../../../core/maintain/verify.ts';
import { describeLocation } from '../../../core/storage/location.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { makeOutput, plural, type Output } from '../../output.ts';
import { progressBar } from '../../progress.ts';
import { chooseDestinations, setUp } from '../../set-up.ts';
import { endedBySignal } from '../../stop-signal.ts';

interface DestinationVerification {
  pipelineId: string;
  destinationId: string;
  location: string;
  clean: boolean;
  paths: VerifyReport[];
  error: ErrorRecord | null;
}

export type VerifyOptions = ConfiguredOptions & { pipeline?: string[]; destination?: string[] };

/** `waybill verify`: reads every recorded output again. */
export async function verifyDestinations(options: VerifyOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return endedBySignal(() => verifyAll(options, output));
}

async function verifyAll(options: VerifyOptions, output: Output): Promise<number> {
  const { config, context, warnings } = await setUp({
    config: options.config,
    output,
    verbose: options.verbose,
    ...(options.pipeline === undefined ? {} : { pipelineIds: options.pipeline }),
  });
  const chosen = chooseDestinations(config, options);
  const results: DestinationVerification[] = [];
  const bar = progressBar(!output.isJson);
  for (const { pipeline, destinations } of chosen) {
    for (const { id, location, fileConcurrency } of destinations) {
      const base = { pipelineId: pipeline.id, destinationId: id, location: describeLocation(location) };
      try {
        const paths = await withReleasers(async (onRelease) => {
          const storage = await context.openStorage(location, { readOnly: true });
          onRelease(() => storage.close());
          return verify(storage, { concurrency: fileConcurrency, onBytes: bar.onBytes });
        });
        results.push({ ...base, clean: paths.every(isClean), paths, error: null });
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
    print(results, clean, output);
  }
  return clean ? 0 : 1;
}

function tell({ message, hint }: ErrorRecord, { data, style }: Output): void {
  data(`  ${style.red(message)}`);
  if (hint !== null) data(`  ${style.cyan('next:')} ${hint}`);
}

function isClean({ differing, error, interrupted }: VerifyReport): boolean {
  return differing.length === 0 && error === null && !interrupted;
}

function print(results: readonly DestinationVerification[], clean: boolean, output: Output): void {
  const { style } = output;
  for (const { pipelineId, destinationId, location, paths, error } of results) {
    output.data(`${style.cyan(`${pipelineId}/${destinationId}`)}  ${style.dim(location)}`);
    if (error !== null) tell(error, output);
    for (const path of paths) {
      const { destinationPath, verified, bytes, differing, interrupted } = path;
      const state = isClean(path) ? style.green('✓') : style.red('✗');
      output.data(
        `  ${state} target=${destinationPath}  ${plural(verified, 'output')}, ${formatSize(bytes)} read`,
      );
      if (interrupted)
        output.data(
          `    ${style.yellow('an attempt did not finish; run `waybill run` (or upload again) to finish it')}`,
        );
      if (path.error !== null) output.data(`    ${style.red(path.error.message)}`);
      for (const { path: name, problem, expected, found } of differing)
        output.data(
          `    ${style.red(problem.padEnd(7))}  ${name}  expected ${expected}${found === null ? '' : `, found ${found}`}`,
        );
    }
  }
  if (clean) {
    output.data(`${style.green('clean')}  every recorded output is as it was published`);
    return;
  }
  const differing = results.flatMap(({ paths }) => paths.flatMap((path) => path.differing));
  const what =
    differing.length === 0
      ? 'not all could be verified'
      : `${plural(differing.length, 'output')} not as published`;
  output.data(`${style.red('failed')}  ${what}`);
  // `run` trusts the records and would say `skip_same`.
  if (differing.length > 0)
    output.data(
      `${style.cyan('next:')} remove what differs, then \`waybill reconcile-state\` and \`waybill run\` publish it again`,
    );
}
