import { formatSize } from '../../../core/settings/units.ts';
import type { ErrorRecord } from '../../../core/errors.ts';
import { describeFinding } from '../../../core/finding.ts';
import type { Fate } from '../../../core/publish/plan.ts';
import type {
  ActionResult,
  Counters,
  DestinationResult,
  PipelineResult,
  RunResult,
} from '../../../core/publish/results/result.ts';
import { columns, plural, type Output } from '../../output.ts';
import { countedOrphans, printOrphans } from './orphan-text.ts';

/** So many changes of one destination are listed, unless everything was asked for. */
const changesShown = 20;

type DestinationAction = DestinationResult['actions'][number];

/** A run as people read it: data to stdout, warnings to stderr. */
export function printRun(
  result: RunResult,
  output: Output,
  { verbose, stopped }: { verbose: boolean; stopped: boolean },
): void {
  for (const warning of result.warnings) output.warn(warning);
  for (const pipeline of result.pipelines) printPipeline(pipeline, result, output, verbose);
  output.data(summary(result, output, stopped));
}

function printPipeline(pipeline: PipelineResult, result: RunResult, output: Output, verbose: boolean): void {
  const { style } = output;
  for (const warning of pipeline.warnings) output.warn(warning);
  if (pipeline.status === 'skipped') return;
  output.data(`${style.bold(pipeline.pipelineId)}  ${plural(pipeline.bundles, 'bundle')}`);
  for (const { bundle, error } of pipeline.invalidBundles) tell(`bundle ${bundle}`, error, output, '  ');
  if (pipeline.error !== null) tell('source', pipeline.error, output, '  ');
  for (const destination of pipeline.destinations)
    if (pipeline.error === null) printDestination(destination, result, output, verbose);
    else {
      output.data(`  ${style.cyan(destination.destinationId)}  ${style.dim(destination.location)}`);
      for (const action of destination.actions)
        output.data(
          `    ${heading(action, output).join('  ')}  nothing was published: the source could not be read`,
        );
    }
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
  const rows = destination.actions.map((action) => [
    ...heading(action, output),
    amount(action, dryRun),
    style.dim(action.reason?.message ?? ''),
  ]);
  const lines = columns(rows, '    ');
  let left = verbose ? Infinity : changesShown;
  let unsaid = 0;
  for (const [index, line] of lines.entries()) {
    output.data(line);
    const action = destination.actions[index];
    if (action === undefined) continue;
    if (action.error !== null) tell('failed', action.error, output, '      ');
    if (!dryRun && !verbose) continue;
    const changes = listed(action.changes, verbose);
    const shown = changes.slice(0, left);
    printChanges(shown, output);
    left -= shown.length;
    unsaid += changes.length - shown.length;
  }
  if (unsaid > 0)
    output.data(style.dim(`      … and ${plural(unsaid, 'more change')} (--verbose shows all)`));
  printOrphans(destination.orphans, output, { dryRun, verbose });
}

/** What most needs to be seen comes first, and what is kept only if everything was asked for. */
const fateOrder = ['remove', 'change', 'add', 'refresh', 'keep'] as const satisfies Fate[];

function listed(changes: ActionResult['changes'], verbose: boolean): ActionResult['changes'] {
  const fates = verbose ? fateOrder : fateOrder.filter((fate) => fate !== 'keep');
  return fates.flatMap((fate) => changes.filter((change) => change.fate === fate));
}

function printChanges(changes: ActionResult['changes'], output: Output): void {
  const rows = changes.map(({ fate, path, why }) => [fate, path, why.replaceAll('_', ' ')]);
  for (const line of columns(rows, '      ')) output.data(output.style.dim(line));
}

/** Without a target if the destination failed as a whole and no bundle path is known. */
function heading(result: DestinationAction, output: Output): string[] {
  const { destinationPath, action } = result;
  return [mark(result, output), ...(destinationPath === null ? [] : [`target=${destinationPath}`]), action];
}

function mark({ error, action }: DestinationAction, { style }: Output): string {
  if (error !== null) return style.red('✗');
  return action === 'skip_same' ? style.dim('=') : style.green('✓');
}

function amount(result: DestinationAction, dryRun: boolean): string {
  const { action, outputs, changes, release } = result;
  if (action === 'skip_same') return plural(outputs.length, 'output');
  const { written, linked, kept, removed, bytes } = dryRun
    ? predicted(changes, outputs, release !== null)
    : {
        written: result.outputsWritten,
        linked: result.outputsLinked,
        kept: result.outputsKept,
        removed: result.outputsRemoved,
        bytes: result.bytesWritten,
      };
  const parts = [
    ...(written > 0 ? [plural(written, 'output'), formatSize(bytes)] : []),
    ...(linked > 0 ? [`${linked} linked`] : []),
    ...(kept > 0 ? [`${kept} kept`] : []),
    ...(removed > 0 ? [`${removed} removed`] : []),
    ...(release === null ? [] : [`release ${release}`]),
  ];
  return parts.join(', ');
}

function predicted(
  changes: ActionResult['changes'],
  outputs: ActionResult['outputs'],
  isRelease: boolean,
): { written: number; linked: number; kept: number; removed: number; bytes: number } {
  const count = (...fates: Fate[]): number => changes.filter(({ fate }) => fates.includes(fate)).length;
  const written = new Set(
    changes.filter(({ fate }) => fate === 'add' || fate === 'change').map(({ path }) => path),
  );
  const bytes = outputs.reduce((sum, { path, size }) => sum + (written.has(path) ? size : 0), 0);
  const stays = count('keep', 'refresh');
  const [linked, kept] = isRelease ? [stays, 0] : [0, stays];
  return { written: written.size, linked, kept, removed: count('remove'), bytes };
}

function tell(what: string, error: ErrorRecord, { data, style }: Output, indent: string): void {
  data(`${indent}${style.red(`${what}: ${error.message}`)}  ${style.dim(`(${error.code})`)}`);
  const findings = error.findings.map(describeFinding);
  // A message often names the one thing that is wrong already.
  const isSaid = findings.length === 1 && error.message.includes(findings[0] ?? '');
  if (!isSaid) for (const finding of findings) data(`${indent}  ${finding}`);
  if (error.hint !== null) data(`${indent}  ${style.cyan('next:')} ${error.hint}`);
}

function summary({ counters, dryRun, pipelines }: RunResult, { style }: Output, stopped: boolean): string {
  const counted = (Object.entries(counters) as [keyof Counters, number][])
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name}=${count}`);
  const invalid = pipelines.reduce((sum, { invalidBundles }) => sum + invalidBundles.length, 0);
  if (invalid > 0) counted.push(`invalid_bundles=${invalid}`);
  counted.push(...countedOrphans(pipelines));
  const text = counted.length > 0 ? counted.join('  ') : stopped ? 'nothing was begun' : 'nothing to do';
  const failed = pipelines.some(({ status }) => status === 'failed');
  const head = dryRun ? 'dry run, nothing was written: ' : '';
  if (stopped) return `${style.yellow('stopped')}  ${head}${text}; run again to finish`;
  return `${failed ? style.red('failed') : style.green('done')}  ${head}${text}`;
}
