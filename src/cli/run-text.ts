import { formatSize } from '../core/config/units.ts';
import type { ErrorRecord } from '../core/errors.ts';
import { describeFinding } from '../core/finding.ts';
import type {
  ActionResult,
  Counters,
  DestinationResult,
  PipelineResult,
  RunResult,
} from '../core/publish/result.ts';
import { columns, plural, type Output } from './output.ts';

/** Longer lists of changes are cut, unless everything was asked for. */
const changesShown = 20;

/** A run as people read it: data to stdout, warnings to stderr. */
export function printRun(result: RunResult, output: Output, verbose: boolean): void {
  for (const warning of result.warnings) output.warn(warning);
  for (const pipeline of result.pipelines) printPipeline(pipeline, result, output, verbose);
  output.data(summary(result, output));
}

function printPipeline(pipeline: PipelineResult, result: RunResult, output: Output, verbose: boolean): void {
  const { style } = output;
  for (const warning of pipeline.warnings) output.warn(warning);
  if (pipeline.status === 'skipped') return;
  output.data(`${style.bold(pipeline.pipelineId)}  ${plural(pipeline.bundles, 'bundle')}`);
  for (const { bundle, error } of pipeline.invalidBundles)
    output.data(told(`bundle ${bundle}`, error, output, '  '));
  if (pipeline.error !== null) output.data(told('source', pipeline.error, output, '  '));
  for (const destination of pipeline.destinations) printDestination(destination, result, output, verbose);
}

function printDestination(
  destination: DestinationResult,
  { dryRun }: RunResult,
  output: Output,
  verbose: boolean,
): void {
  const { style } = output;
  for (const warning of destination.warnings) output.warn(warning);
  output.data(`  ${style.cyan(destination.destinationId)}  ${style.dim(destination.location)}`);
  if (destination.error !== null) output.data(told('failed', destination.error, output, '    '));
  const rows = destination.actions.map((action) => [
    mark(action, output),
    `target=${action.destinationPath}`,
    action.action,
    amount(action, dryRun),
    style.dim(action.reason?.message ?? ''),
  ]);
  for (const [index, line] of columns(rows, '    ').entries()) {
    output.data(line);
    const action = destination.actions[index];
    if (action === undefined) continue;
    if (action.error !== null) output.data(told('failed', action.error, output, '      '));
    if (dryRun || verbose) printChanges(action, output, verbose);
  }
}

function printChanges({ changes }: ActionResult, output: Output, verbose: boolean): void {
  const shown = verbose ? changes : changes.slice(0, changesShown);
  for (const line of columns(
    shown.map(({ change, path }) => [change, path]),
    '      ',
  ))
    output.data(output.style.dim(line));
  if (shown.length < changes.length)
    output.data(output.style.dim(`      … and ${changes.length - shown.length} more (--verbose shows all)`));
}

function mark({ error, action }: ActionResult, { style }: Output): string {
  if (error !== null) return style.red('✗');
  return action === 'skip_same' ? style.dim('=') : style.green('✓');
}

function amount(
  { action, changes, outputs, outputsWritten, outputsRemoved, bytesWritten }: ActionResult,
  dryRun: boolean,
): string {
  if (action === 'skip_same') return plural(outputs.length, 'output');
  const removed = dryRun ? changes.filter(({ change }) => change === 'remove').length : outputsRemoved;
  const written = dryRun ? changes.length - removed : outputsWritten;
  const size = dryRun ? outputs.reduce((sum, output) => sum + output.size, 0) : bytesWritten;
  const parts = [`${plural(written, 'output')}, ${formatSize(written === 0 ? 0 : size)}`];
  if (removed > 0) parts.push(`${removed} removed`);
  return parts.join(', ');
}

function told(what: string, error: ErrorRecord, { style }: Output, indent: string): string {
  const lines = [`${indent}${style.red(`${what}: ${error.message}`)}  ${style.dim(`(${error.code})`)}`];
  for (const finding of error.findings) lines.push(`${indent}  ${describeFinding(finding)}`);
  if (error.hint !== null) lines.push(`${indent}  ${style.cyan('next:')} ${error.hint}`);
  return lines.join('\n');
}

function summary({ counters, dryRun, pipelines }: RunResult, { style }: Output): string {
  const counted = (Object.entries(counters) as [keyof Counters, number][])
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name}=${count}`);
  const invalid = pipelines.reduce((sum, { invalidBundles }) => sum + invalidBundles.length, 0);
  if (invalid > 0) counted.push(`invalid_bundles=${invalid}`);
  const text = counted.length === 0 ? 'nothing to do' : counted.join('  ');
  const failed = pipelines.some(({ status }) => status === 'failed');
  const head = dryRun ? 'dry run, nothing was written: ' : '';
  return `${failed ? style.red('failed') : style.green('done')}  ${head}${text}`;
}
