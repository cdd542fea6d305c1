import type { OrphanResult, PipelineResult } from '../../../core/publish/results/result.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import { columns, plural, type Output } from '../../output/output.ts';

/** The outputs of one orphan that are listed without --verbose. */
const outputsShown = 20;

/** What a run did, or would do, with the orphans of one destination. */
export function printOrphans(
  orphans: readonly OrphanResult[],
  { data, style }: Output,
  { dryRun, verbose }: { dryRun: boolean; verbose: boolean },
): void {
  const rows = orphans.map(({ destinationPath, action, outputs, bytes }) => [
    `${signOf(action, style)} target=${destinationPath}`,
    action === 'keep' ? 'orphan' : action,
    `${plural(outputs.length, 'file')}, ${formatSize(bytes)}`,
    style.dim(meaningOf(action, dryRun)),
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
    for (const path of shown) data(style.dim(`      - ${path}`));
    const hidden = outputs.length - shown.length;
    if (hidden > 0) data(style.dim(`      … and ${plural(hidden, 'more file')} (--verbose shows all)`));
  }
}

function signOf(action: OrphanResult['action'], style: Output['style']): string {
  if (action === 'error') return style.red('✗');
  return action === 'unpublish' ? style.red('-') : style.yellow('!');
}

function meaningOf(action: OrphanResult['action'], dryRun: boolean): string {
  const gone = 'no longer in the source';
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
