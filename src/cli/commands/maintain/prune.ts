import { type Finding, WaybillError } from '../../../core/lib/errors.ts';
import { plural } from '../../../core/lib/text.ts';
import { prune, type PruneReport } from '../../../core/maintain/prune.ts';
import { refreshIfListed } from '../../../core/publish/root-index/update-root-index.ts';
import { withDestination } from '../../../core/releases/bundle-place.ts';
import { columns, type Output } from '../../output/output.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { onlyDestination, setUpPipeline } from '../../setup/set-up.ts';
import { withAuditAndNotifiers } from '../../setup/with-audit.ts';
import type { pruneCommand } from './commands.ts';

export async function pruneDestination(
  options: OptionsFor<typeof pruneCommand>,
  { output, signal }: Io,
): Promise<number> {
  const { dryRun } = options;
  if (!dryRun && !options.apply)
    throw new WaybillError('usage', 'prune needs --dry-run or --apply', {
      hint: 'check the removals with --dry-run first; --apply deletes',
    });
  const prepared = await setUpPipeline(options, { output, signal, notifies: true });
  const { pipeline } = prepared;
  const destination = onlyDestination(pipeline, options.destination);
  const { limits, prune: policy, releases } = destination;
  if (releases !== null)
    throw new WaybillError(
      'prune_disabled',
      `destination "${destination.id}" keeps releases, which are removed automatically and as a whole`,
      { hint: 'releases.keep and releases.linger set how many are kept, and for how long' },
    );
  const maxRemoved = options.allowRemovals ? null : limits.maxRemoved;
  const owner = { pipelineId: pipeline.id, destinationId: destination.id };
  const found: Finding[] = [];
  const act = { act: 'prune', dryRun, ...owner, detail: { allow_removals: maxRemoved === null } } as const;
  const notified = await withAuditAndNotifiers(
    prepared,
    act,
    async (context) =>
      withDestination(context, destination, { readOnly: dryRun }, async (storage) => {
        const pruned = await prune(context, storage, { owner, policy, maxRemoved, dryRun });
        const paths = new Set(pruned.removed.map(({ destinationPath }) => destinationPath));
        const index = { owner, destination };
        found.push(...(await refreshIfListed(context, storage, index, paths, { dryRun })));
        return pruned;
      }),
    ({ refused, errors }) => refused ?? errors[0]?.error ?? null,
  );
  const report = notified.result;
  const warnings = [...prepared.warnings, ...found, ...notified.warnings];
  const decisions = report.decisions.map(({ destinationPath, record, prune: goes, reason }) => ({
    destinationPath,
    path: record.path,
    updatedAt: record.updatedAt,
    prune: goes,
    reason,
  }));
  output.result('prune', { dryRun, ...owner, ...report, decisions, warnings }, () =>
    print(report, dryRun, output),
  );
  return report.errors.length === 0 && report.refused === null ? 0 : 1;
}

function print({ decisions, refused, removed, errors }: PruneReport, dryRun: boolean, output: Output): void {
  const { style } = output;
  const rows = decisions.map(({ destinationPath, record, prune: goes, reason }) => [
    goes ? style.yellow('prune') : style.dim('keep'),
    destinationPath === '.' ? record.path : `${destinationPath}/${record.path}`,
    record.updatedAt,
    style.dim(reason),
  ]);
  for (const line of columns(rows)) output.data(line);
  for (const { destinationPath, error } of errors)
    output.failure('failed', { ...error, message: `target=${destinationPath}: ${error.message}` });
  if (refused !== null) output.failure('refused', refused);
  const planned = decisions.filter(({ prune: goes }) => goes).length;
  const hasFailed = errors.length > 0 || refused !== null;
  const what = dryRun
    ? `${plural(planned, 'output')} would be removed; nothing was deleted`
    : `${plural(removed.length, 'output')} of ${planned} removed`;
  output.data(`${hasFailed ? style.red('failed') : style.green('done')}  ${what}`);
}
