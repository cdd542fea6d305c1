import type { OrphanResult, PipelineResult } from '../../../core/publish/results/result.ts';
import { formatSize } from '../../../core/settings/units.ts';
import { columns, plural, type Output } from '../../output.ts';

/** So many outputs of one orphan are listed, unless everything was asked for. */
const outputsShown = 20;

/** What a run did, or would do, with the orphans of one destination. */
export function printOrphans(
  orphans: readonly OrphanResult[],
  { data, style }: Output,
  { dryRun, verbose }: { dryRun: boolean; verbose: boolean },
): void {
  const rows = orphans.map(({ destinationPath, action, outputs, bytes }) => [
    action === 'error' ? style.red('✗') : style.yellow('!'),
    `target=${destinationPath}`,
    action === 'keep' ? 'orphan' : action,
    `${plural(outputs.length, 'output')}, ${formatSize(bytes)}`,
    style.dim(said(action, dryRun)),
  ]);
  for (const [index, line] of columns(rows, '    ').entries()) {
    data(line);
    const orphan = orphans[index];
    if (orphan === undefined) continue;
    const { action, outputs, error } = orphan;
    if (error !== null) {
      data(`      ${style.red(`failed: ${error.message}`)}  ${style.dim(`(${error.code})`)}`);
      if (error.hint !== null) data(`        ${style.cyan('next:')} ${error.hint}`);
    }
    if (action !== 'unpublish' || (!dryRun && !verbose)) continue;
    const shown = verbose ? outputs : outputs.slice(0, outputsShown);
    for (const path of shown) data(style.dim(`      remove  ${path}`));
    const unsaid = outputs.length - shown.length;
    if (unsaid > 0) data(style.dim(`      … and ${plural(unsaid, 'more output')} (--verbose shows all)`));
  }
}

function said(action: OrphanResult['action'], dryRun: boolean): string {
  const gone = 'the source does not hold it any more';
  if (action === 'unpublish') return `${gone}; ${dryRun ? 'it would be removed' : 'it was removed'}`;
  return action === 'keep' ? `${gone}; it stays published` : gone;
}

/** For the last line of a run: `orphans=2`, `unpublish=1`. */
export function countedOrphans(pipelines: readonly PipelineResult[]): string[] {
  const orphans = pipelines.flatMap(({ destinations }) => destinations.flatMap((one) => one.orphans));
  const removed = orphans.filter(({ action }) => action === 'unpublish').length;
  const left = orphans.length - removed;
  return [...(removed > 0 ? [`unpublish=${removed}`] : []), ...(left > 0 ? [`orphans=${left}`] : [])];
}
