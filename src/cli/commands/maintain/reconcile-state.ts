import type { CoreContext } from '../../../core/context.ts';
import type { ErrorRecord } from '../../../core/lib/errors.ts';
import { plural } from '../../../core/lib/text.ts';
import { reconcile, type ReconcileReport } from '../../../core/maintain/reconcile.ts';
import { rebuildRootIndex } from '../../../core/publish/root-index/update-root-index.ts';
import { withDestination } from '../../../core/releases/bundle-place.ts';
import { releasePathOf } from '../../../core/releases/release.ts';
import { type Output } from '../../output/output.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { onlyDestination, setUpPipeline } from '../../setup/set-up.ts';
import { withAudit } from '../../setup/with-audit.ts';
import type { reconcileStateCommand } from './commands.ts';

export async function reconcileState(
  options: OptionsFor<typeof reconcileStateCommand>,
  { output, signal }: Io,
): Promise<number> {
  const { config, warnings, pipeline, ...prepared } = await setUpPipeline(options, { output, signal });
  const destination = onlyDestination(pipeline, options.destination);
  const { dryRun, allOwners } = options;
  const owner = { pipelineId: pipeline.id, destinationId: destination.id };
  const act = { act: 'catalog.reconcile', dryRun, ...owner, detail: { all_owners: allOwners } } as const;
  const change = async (context: CoreContext): Promise<ReconcileReport[]> =>
    withDestination(context, destination, { readOnly: dryRun }, async (storage) => {
      const reports = await reconcile(context, storage, { owner, dryRun, allOwners });
      if (!destination.rootIndex || dryRun) return reports;
      const warning = await rebuildRootIndex(context, storage, { owner, destination });
      if (warning !== null) warnings.push(warning);
      return reports;
    });
  const failureOf = (reports: readonly ReconcileReport[]): ErrorRecord | null =>
    reports.find(({ error }) => error !== null)?.error ?? null;
  const paths = await withAudit({ config, ...prepared }, act, change, failureOf);
  output.result('reconcile-state', { dryRun, ...owner, paths, warnings }, () => print(paths, dryRun, output));
  return paths.every(({ error }) => error === null) ? 0 : 1;
}

function print(paths: readonly ReconcileReport[], dryRun: boolean, output: Output): void {
  const { style } = output;
  let repaired = 0;
  for (const { destinationPath, missing, unmanaged, error } of paths) {
    output.data(`target=${destinationPath}`);
    if (error !== null) output.failure('failed', error, '  ');
    for (const { path, owner, repaired: goes } of missing) {
      if (goes) repaired += 1;
      const verb = goes
        ? dryRun
          ? 'record would be removed'
          : 'record removed'
        : releasePathOf(destinationPath) === null
          ? 'of another owner, kept (--all-owners)'
          : 'a release does not change; waybill verify --repair writes it again';
      output.data(
        `  ${style.yellow('missing')}    ${path}  ${style.dim(`${owner.pipelineId}/${owner.destinationId}, ${verb}`)}`,
      );
    }
    for (const path of unmanaged) output.data(`  ${style.dim('unmanaged')}  ${path}`);
    if (error === null && missing.length + unmanaged.length === 0)
      output.data(`  ${style.green('✓')} every record has its file, and every file its record`);
  }
  const failed = paths.some(({ error }) => error !== null);
  const what = `${plural(repaired, 'record')} ${dryRun ? 'would be removed; nothing was written' : 'removed'}`;
  output.data(`${failed ? style.red('failed') : style.green('done')}  ${what}`);
}
