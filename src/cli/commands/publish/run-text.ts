import { systemClock } from '../../../core/lib/clock.ts';
import { describeFinding, type ErrorRecord } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural, shellQuoted } from '../../../core/lib/text.ts';
import type { ChangeReason, Fate } from '../../../core/publish/plan.ts';
import {
  type ActionResult,
  allSucceeded,
  type Counters,
  type DestinationResult,
  type OrphanResult,
  type PipelineResult,
  type RunResult,
} from '../../../core/publish/results/result.ts';
import { bundleErrors } from '../../../core/publish/select-bundles.ts';
import { columns, type Output, reasonText, signOf, tookText } from '../../output/output.ts';
import type { Io } from '../../setup/command.ts';

/** The number of changes to list for each destination without --verbose. */
const changesShown = 20;

type DestinationAction = DestinationResult['actions'][number];

interface RunTextOptions {
  verbose: boolean;
  stopped: boolean;
  durationMs: number;
}

/**
 * Prints the result of a command that publishes, and which bundles were held back because of a rollback.
 * Returns the exit code. `configured` has the options for the configuration, for use in suggested commands.
 */
export function reportRun(
  result: RunResult,
  { output, signal }: Io,
  options: { verbose: boolean; begunMs: number; configured: string; shown?: RunResult },
): number {
  const { verbose, begunMs, configured, shown = result } = options;
  const durationMs = systemClock.monotonic() - begunMs;
  output.result('run', result, () =>
    printRun(shown, output, { verbose, stopped: signal.aborted, durationMs }),
  );
  const isHeldBack = reportHeldBack(result.pipelines, output, configured);
  if (!allSucceeded(result.pipelines)) return 1;
  return isHeldBack ? heldBackExitCode : 0;
}

function printRun(result: RunResult, output: Output, options: RunTextOptions): void {
  for (const pipeline of result.pipelines) printPipeline(pipeline, result, output, options);
  output.data(summary(result, output, options));
}

function printPipeline(
  pipeline: PipelineResult,
  result: RunResult,
  output: Output,
  options: RunTextOptions,
): void {
  const { style } = output;
  for (const warning of pipeline.warnings) output.warn(warning);
  if (pipeline.status === 'skipped') return;
  const bundles = pipeline.bundles === 1 ? '' : `  ${plural(pipeline.bundles, 'bundle')}`;
  output.data(`${style.bold(pipeline.pipelineId)}${bundles}`);
  for (const { bundle, error } of pipeline.invalidBundles)
    printFailure(bundle === '.' ? '' : `bundle ${bundle}: `, error, output, '  ');
  if (pipeline.error !== null) printFailure('', pipeline.error, output, '  ');
  for (const destination of pipeline.destinations)
    if (hasOwnResult(destination, pipeline)) printDestination(destination, result, output, options);
    else {
      output.data(`  ${style.cyan(destination.destinationId)}  ${style.dim(destination.location)}`);
      const why = pipeline.error === null ? '' : ': the source could not be read';
      for (const action of destination.actions)
        output.data(`    ${heading(action, output).join('  ')}  nothing was published${why}`);
    }
}

/** Reports whether a destination has its own result, and not just a failed source or bundle. */
function hasOwnResult({ actions }: DestinationResult, { error, invalidBundles }: PipelineResult): boolean {
  if (error !== null) return false;
  const isUnusable = invalidBundles.some(({ bundle }) => bundle === '.');
  return (
    !isUnusable || actions.some(({ error: fault }) => fault === null || !bundleErrors.includes(fault.code))
  );
}

function printDestination(
  destination: DestinationResult,
  { dryRun }: RunResult,
  output: Output,
  { verbose }: RunTextOptions,
): void {
  const { style } = output;
  for (const warning of destination.warnings) output.warn(warning);
  output.data(`  ${style.cyan(destination.destinationId)}  ${style.dim(destination.location)}`);
  const rows = destination.actions.map((action) => [
    ...heading(action, output),
    action.error === null ? amount(action, dryRun) : '',
    style.dim(reasonText(action.reason, action.error)),
  ]);
  const lines = columns(rows, '    ');
  let remainingLines = verbose ? Infinity : changesShown;
  let hidden = 0;
  for (const [index, line] of lines.entries()) {
    output.data(line);
    const action = destination.actions[index];
    if (action === undefined) continue;
    if (action.error !== null) printFailure('', action.error, output, '      ');
    if (action.url !== null) output.data(`      ${action.url}`);
    if (!dryRun && !verbose) continue;
    const changes = selectChanges(action.changes, verbose);
    const shown = changes.slice(0, remainingLines);
    printChanges(shown, output);
    remainingLines -= shown.length;
    hidden += changes.length - shown.length;
  }
  if (hidden > 0)
    output.data(style.dim(`      … and ${plural(hidden, 'more change')} (--verbose shows all)`));
  printOrphans(destination.orphans, output, { dryRun, verbose });
}

/** The order in which to list changes. Unchanged files are last, and only listed if requested. */
const fateOrder = ['remove', 'change', 'add', 'refresh', 'keep'] as const satisfies Fate[];

function selectChanges(changes: ActionResult['changes'], verbose: boolean): ActionResult['changes'] {
  const fates = verbose ? fateOrder : fateOrder.filter((fate) => fate !== 'keep');
  return fates.flatMap((fate) => changes.filter((change) => change.fate === fate));
}

/** The sign for each kind of change, and its usual reason, which is not printed. */
const fates = {
  add: ['+', 'not_recorded'],
  change: ['~', 'content_differs'],
  refresh: ['~', null],
  keep: ['=', 'same'],
  remove: ['-', 'omitted'],
} as const satisfies Record<Fate, [string, ChangeReason | null]>;

function printChanges(changes: ActionResult['changes'], output: Output): void {
  const rows = changes.map(({ fate, path, why }) => {
    const [sign, usual] = fates[fate];
    return [`${sign} ${path}`, why === usual ? '' : why.replaceAll('_', ' ')];
  });
  for (const line of columns(rows, '      ')) output.data(output.style.dim(line));
}

/** Leaves out the bundle path if the destination failed as a whole. */
function heading(result: DestinationAction, { style }: Output): string[] {
  const { destinationPath, action, error } = result;
  const sign = signOf(action, error, style);
  return destinationPath === null ? [`${sign} ${action}`] : [`${sign} target=${destinationPath}`, action];
}

function amount(result: DestinationAction, dryRun: boolean): string {
  const { action, outputs, changes, release } = result;
  if (action === 'skip_same') return '';
  const { written, linked, kept, removed, bytes } = dryRun
    ? predictedCounts(changes, outputs, release !== null)
    : {
        written: result.outputsWritten,
        linked: result.outputsLinked,
        kept: result.outputsKept,
        removed: result.outputsRemoved,
        bytes: result.bytesWritten,
      };
  const parts = [
    ...(written > 0 ? [plural(written, 'file'), formatSize(bytes)] : []),
    ...(linked > 0 ? [`${linked} linked`] : []),
    ...(kept > 0 ? [`${kept} kept`] : []),
    ...(removed > 0 ? [`${removed} removed`] : []),
    ...(release === null ? [] : [`release ${release}`]),
  ];
  return parts.join(', ');
}

function predictedCounts(
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

function printFailure(about: string, error: ErrorRecord, { data, style }: Output, indent: string): void {
  data(`${indent}${style.red(`failed  ${about}${error.message}`)}  ${style.dim(`(${error.code})`)}`);
  // The message often already includes the first finding.
  for (const finding of error.findings.map(describeFinding))
    if (!error.message.includes(finding)) data(`${indent}        ${finding}`);
  if (error.hint !== null) data(`${indent}${style.cyan('next')}    ${error.hint}`);
}

/** Summarizes the results of all bundles, followed by the counters that the specification requires. */
function summary(result: RunResult, { style }: Output, { stopped, durationMs }: RunTextOptions): string {
  const { counters, dryRun, pipelines } = result;
  const counted = (Object.entries(counters) as [keyof Counters, number][])
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name}=${count}`);
  const invalid = pipelines.reduce((sum, { invalidBundles }) => sum + invalidBundles.length, 0);
  if (invalid > 0) counted.push(`invalid_bundles=${invalid}`);
  counted.push(...countedOrphans(pipelines));
  const nothing = stopped ? 'nothing was started' : 'nothing to do';
  const text = counted.length > 0 ? outcomeText(result, { style }, invalid, durationMs) : nothing;
  const end = dryRun ? '; dry run, nothing was written' : '';
  const failed = pipelines.some(({ status }) => status === 'failed');
  const line = [`${text}${end}${stopped ? '; run again to finish' : ''}`, counted.join(' ')];
  const shown = line.filter((part) => part !== '').join('  ');
  if (stopped) return `${style.yellow('stopped')}  ${shown}`;
  return failed ? `${style.red('failed')}  ${shown}` : shown;
}

function outcomeText(
  { counters, dryRun, pipelines }: RunResult,
  { style }: Pick<Output, 'style'>,
  invalid: number,
  durationMs: number,
): string {
  const destinations = pipelines.flatMap((pipeline) => pipeline.destinations);
  const actions = destinations.flatMap((destination) => destination.actions);
  const failed = actions.filter(({ error }) => error !== null).length;
  const unchanged = counters.skip_same;
  const published = actions.length - failed - unchanged;
  const removed = destinations
    .flatMap(({ orphans }) => orphans)
    .filter(({ action }) => action === 'unpublish').length;
  const bytes = actions.reduce((sum, action) => sum + bytesOf(action, dryRun), 0);
  const parts = [
    `${dryRun ? 'would publish' : 'published'} ${published}`,
    `unchanged ${unchanged}`,
    ...(removed > 0 ? [`${dryRun ? 'would remove' : 'removed'} ${removed}`] : []),
    failed > 0 ? style.red(`failed ${failed}`) : 'failed 0',
    ...(invalid > 0 ? [style.red(`invalid ${invalid}`)] : []),
  ];
  const size = bytes > 0 ? ` (${formatSize(bytes)})` : '';
  return `${parts.join(', ')}${dryRun ? '' : ` in ${tookText(durationMs)}`}${size}`;
}

function bytesOf({ changes, outputs, release, bytesWritten }: DestinationAction, dryRun: boolean): number {
  return dryRun ? predictedCounts(changes, outputs, release !== null).bytes : bytesWritten;
}

/** The number of outputs to list for each orphan without --verbose. */
const outputsShown = 20;

/** Prints what has been done, or would be done, about orphans at a destination. */
function printOrphans(
  orphans: readonly OrphanResult[],
  output: Output,
  { dryRun, verbose }: { dryRun: boolean; verbose: boolean },
): void {
  const { data, style } = output;
  const rows = orphans.map(({ destinationPath, action, outputs, bytes }) => [
    `${orphanSign(action, style)} target=${destinationPath}`,
    action === 'keep' ? 'orphan' : action,
    `${plural(outputs.length, 'file')}, ${formatSize(bytes)}`,
    style.dim(meaningOf(action, dryRun)),
  ]);
  for (const [index, line] of columns(rows, '    ').entries()) {
    data(line);
    const orphan = orphans[index];
    if (orphan === undefined) continue;
    const { action, outputs, error } = orphan;
    if (error !== null) printFailure('', error, output, '      ');
    if (action !== 'unpublish' || (!dryRun && !verbose)) continue;
    const shown = verbose ? outputs : outputs.slice(0, outputsShown);
    for (const path of shown) data(style.dim(`      - ${path}`));
    const hidden = outputs.length - shown.length;
    if (hidden > 0) data(style.dim(`      … and ${plural(hidden, 'more file')} (--verbose shows all)`));
  }
}

function orphanSign(action: OrphanResult['action'], style: Output['style']): string {
  if (action === 'error') return style.red('✗');
  return action === 'unpublish' ? style.red('-') : style.yellow('!');
}

function meaningOf(action: OrphanResult['action'], dryRun: boolean): string {
  const notInSource = 'no longer in the source';
  if (action === 'unpublish') return `${notInSource}; ${dryRun ? 'it would be removed' : 'it was removed'}`;
  return action === 'keep' ? `${notInSource}; it stays published` : notInSource;
}

/** Returns the counters for the last line, such as `orphans=2` and `unpublish=1`. */
function countedOrphans(pipelines: readonly PipelineResult[]): string[] {
  const orphans = pipelines.flatMap(({ destinations }) => destinations.flatMap((one) => one.orphans));
  const removed = orphans.filter(({ action }) => action === 'unpublish').length;
  const rest = orphans.length - removed;
  return [...(removed > 0 ? [`unpublish=${removed}`] : []), ...(rest > 0 ? [`orphans=${rest}`] : [])];
}

/** The exit code if everything has been published, but some releases were not made current. */
export const heldBackExitCode = 3;

/**
 * Lists the bundles that were not published because their release has been rolled back, with the command to
 * publish them again. Returns true if there are any.
 */
function reportHeldBack(pipelines: readonly PipelineResult[], output: Output, configured: string): boolean {
  let isAny = false;
  for (const { pipelineId, destinations } of pipelines)
    for (const { destinationId, actions } of destinations)
      for (const { reason, release, destinationPath } of actions) {
        if (reason?.code !== 'rolled_back' || release === null) continue;
        isAny = true;
        const at = destinationPath ?? '.';
        const place = at === '.' ? destinationId : `${destinationId}, ${at}`;
        const path = at === '.' ? '' : ` --path ${shellQuoted(at)}`;
        output.note(
          `${place}: readers still have another release, because ${release} was rolled back; to publish it: waybill releases promote ${release} ${configured} --pipeline ${pipelineId} --destination ${destinationId}${path}`,
        );
      }
  return isAny;
}
