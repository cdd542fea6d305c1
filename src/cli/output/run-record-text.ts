import type { RunRecord } from '../../client/client.ts';
import { describeFinding, type Finding } from '../../core/lib/errors.ts';
import { formatSize } from '../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../core/lib/text.ts';
import { columns, localTime, type Output, reasonText, signOf, type Style, tookText } from './output.ts';

type RunError = NonNullable<RunRecord['error']>;
type RunDestination = RunRecord['destinations'][number];

/** Prints the record of a run. `locate` changes the paths in findings to local files. */
export function printRun(
  run: RunRecord,
  output: Output,
  locate: (finding: Finding) => Finding = (finding) => finding,
): void {
  const { style } = output;
  const took =
    run.finished_at === null
      ? ''
      : `  ${style.dim(`in ${tookText(Date.parse(run.finished_at) - Date.parse(run.accepted_at))}`)}`;
  output.data(`${statusText(run, style)}  ${run.run_id}${took}`);
  const revision = revisionText(run.revision ?? null);
  if (revision !== '') output.data(`  ${revision}`);
  const publisher = publisherText(run.published_by ?? null);
  if (publisher !== null) output.data(`  ${publisher}`);
  const tries = attemptsText(run);
  if (tries !== null) output.data(`  ${tries}`);
  for (const { destination_id: id, code, message } of run.warnings)
    output.warn({
      severity: 'warning',
      code,
      message: id === null ? message : `${id}: ${message}`,
      file: null,
      pointer: null,
      line: null,
      column: null,
    });
  if (run.next_try_at !== null && run.last_error !== null) printReason(run.last_error, output, locate, '  ');
  if (run.error !== null) printReason(run.error, output, locate, '  ');
  const rows = columns(
    run.destinations.map((destination) => destinationRow(destination, style)),
    '  ',
  );
  run.destinations.forEach(({ error, url = null }, index) => {
    output.data(rows[index] ?? '');
    if (url !== null) output.data(`    ${url}`);
    if (error !== null) printReason(error, output, locate, '    ');
  });
  for (const failed of run.failed_deliveries) output.data(`  ${deliveryText(failed, style)}`);
  const omitted = run.failed_deliveries_omitted;
  if (omitted > 0) output.data(`  ${omitted} more ${omitted === 1 ? 'delivery' : 'deliveries'} failed`);
  const { progress } = run;
  if (progress !== null)
    output.data(
      `  ${progress.stage}  ${progress.outputs_done} of ${plural(progress.outputs_total, 'output')}, ${formatSize(progress.bytes_done)} of ${formatSize(progress.bytes_total)}`,
    );
}

function deliveryText(failed: RunRecord['failed_deliveries'][number], style: Style): string {
  const { notifier_id: id, event_id: event, event_type: type, status, tries } = failed;
  const what = `${style.cyan(id)}  ${type} ${event}`;
  const triesText = `${tries} ${tries === 1 ? 'try' : 'tries'}`;
  const why = failed.last_error === null ? '' : `: ${failed.last_error}`;
  if (status === 'delivered') return `${style.green('✓')}  ${what}  delivered after ${triesText}${why}`;
  const next = failed.next_try_at === null ? '' : `, next at ${failed.next_try_at}`;
  const state = status === 'given_up' ? 'given up' : 'not delivered yet';
  return `${style.red('✗')}  ${what}  ${state} after ${triesText}${next}${why}`;
}

/**
 * Formats a revision: `1a2b3c4d5e6f on main by Ada: fix the title`. Leaves out the parts that are unknown.
 */
export function revisionText(revision: RunRecord['revision'] | null): string {
  const { message, commit, branch, author } = revision ?? {};
  const named = [
    ...(commit ? [/^[0-9a-f]{40,}$/.test(commit) ? commit.slice(0, 12) : commit] : []),
    ...(branch ? [`on ${branch}`] : []),
    ...(author ? [`by ${author}`] : []),
  ].join(' ');
  if (!message) return named;
  return named === '' ? message : `${named}: ${message}`;
}

/**
 * Formats a trusted publisher: `publisher site-ci: octo-org/site refs/heads/main, CI run 77`. Leaves out the
 * parts that are unknown.
 */
export function publisherText(publishedBy: RunRecord['published_by'] | null): string | null {
  if (!publishedBy) return null;
  const { publisher_id: id, repository, ref, ci_run_id: ciRunId } = publishedBy;
  const place = [repository, ref].filter((part) => part !== null).join(' ');
  const parts = [...(place === '' ? [] : [place]), ...(ciRunId === null ? [] : [`CI run ${ciRunId}`])];
  return parts.length === 0 ? `publisher ${id}` : `publisher ${id}: ${parts.join(', ')}`;
}

/** Describes how often a run was attempted. Returns null if there was only one attempt. */
function attemptsText({
  attempt,
  next_try_at: next,
  retry_until: until,
  finished_at,
}: RunRecord): string | null {
  if (next !== null) return `try ${attempt} at ${next}, tries end at ${until ?? '?'}`;
  if (attempt === 1) return null;
  return finished_at === null ? `try ${attempt}` : `ended at try ${attempt}`;
}

/** Prints a note whenever an attempt fails and will be retried. */
export function retryNotes(output: Output): (run: RunRecord) => void {
  let shown = 1;
  return ({ attempt, next_try_at: next, last_error: cause }) => {
    if (next === null || cause === null || attempt === shown) return;
    shown = attempt;
    output.note(`${cause.code}: ${cause.message}; try ${attempt} at ${next}`);
  };
}

/** Formats a list of runs, with one line for each. */
export function runLines(runs: readonly RunRecord[], style: Style): string[] {
  return columns(
    runs.map((run) => [
      localTime(run.accepted_at),
      statusText(run, style),
      run.run_id,
      style.dim(summaryOf(run)),
    ]),
  );
}

function summaryOf({ progress, error, destinations, ...run }: RunRecord): string {
  if (progress !== null)
    return `${progress.stage} ${progress.outputs_done}/${progress.outputs_total} outputs`;
  if (run.next_try_at !== null && run.last_error !== null)
    return `try ${run.attempt} at ${run.next_try_at}: ${run.last_error.code}: ${run.last_error.message}`;
  const reason = error ?? destinations.find((each) => each.error !== null)?.error ?? null;
  if (reason !== null) return `${reason.code}: ${reason.message}`;
  return destinations.map(({ destination_id: id, action }) => `${id} ${action}`).join(', ');
}

function statusText({ status }: RunRecord, style: Style): string {
  if (status === 'succeeded') return style.green(status);
  return status === 'failed' ? style.red(status) : style.yellow(status);
}

function destinationRow(destination: RunDestination, style: Style): string[] {
  const { destination_id: id, action, destination_path: path, error } = destination;
  return [
    `${signOf(action, error, style)} ${style.cyan(id)}`,
    `target=${path ?? '?'}`,
    action,
    error === null ? amount(destination) : '',
    style.dim(reasonText(destination.reason, error)),
  ];
}

function amount(destination: RunDestination): string {
  const { outputs_written: written, outputs_linked: linked, release, bytes_written: bytes } = destination;
  const { action, outputs_kept: kept, outputs_removed: removed } = destination;
  if (action === 'skip_same') return '';
  return [
    ...(written > 0 ? [plural(written, 'file'), formatSize(bytes)] : []),
    ...(linked > 0 ? [`${linked} linked`] : []),
    ...(kept > 0 ? [`${kept} kept`] : []),
    ...(removed > 0 ? [`${removed} removed`] : []),
    ...(release === null ? [] : [`release ${release}`]),
  ].join(', ');
}

function printReason(
  { code, message, hint, findings }: RunError,
  output: Output,
  locate: (finding: Finding) => Finding,
  indent: string,
): void {
  output.data(`${indent}${output.style.red(code)}  ${message}`);
  for (const finding of findings)
    output.data(`${indent}  ${describeFinding(locate(finding as unknown as Finding))}`);
  if (hint !== null) output.data(`${indent}${output.style.cyan('next')}  ${hint}`);
}
