import type { DestinationConfig, PipelineConfig } from '../../../core/config/config.ts';
import { errorRecord, type Finding, WaybillError } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { unpublishListed } from '../../../core/publish/root-index/listed-changes.ts';
import type { UnpublishReport } from '../../../core/publish/unpublish/unpublication.ts';
import { withDestination } from '../../../core/releases/bundle-place.ts';
import { exitCodes } from '../../exit-codes.ts';
import { type Output } from '../../output/output.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import {
  bundlePathArgument,
  type CommandContext,
  onlyDestination,
  setUpPipeline,
} from '../../setup/set-up.ts';
import { withAuditAndNotifiers } from '../../setup/with-audit.ts';
import type { unpublishCommand } from './commands.ts';

type UnpublishOptions = OptionsFor<typeof unpublishCommand>;

export async function unpublish(options: UnpublishOptions, { output, signal }: Io): Promise<number> {
  const { dryRun } = options;
  const destinationPath = bundlePathArgument(options.path);
  const prepared = await setUpPipeline(options, { output, signal, notifies: true });
  const pipelineId = prepared.pipeline.id;
  const destination = onlyDestination(prepared.pipeline, options.destination);
  const { outcome, warnings } = await unpublishOrReport(prepared, destinationPath, destination, options);
  const report = outcome instanceof WaybillError ? null : outcome;
  const error = outcome instanceof WaybillError ? errorRecord(outcome) : null;
  const about = { dryRun, pipelineId, destinationId: destination.id, destinationPath };
  output.result('unpublish', { ...about, ...reportJson(report), error, warnings }, () => {
    if (report !== null) print(report, dryRun, output);
    if (error !== null) output.failure('failed', error);
  });
  return error === null ? 0 : 1;
}

/**
 * Unpublishes a bundle path. If it fails, returns the error as the outcome, unless the input is wrong, in
 * which case it throws. A path where nothing has been published counts as wrong input.
 */
async function unpublishOrReport(
  prepared: CommandContext & { pipeline: PipelineConfig },
  destinationPath: string,
  destination: DestinationConfig,
  { layout, dryRun, allowRemovals }: UnpublishOptions,
): Promise<{ outcome: UnpublishReport | WaybillError; warnings: Finding[] }> {
  const { id: destinationId, limits, fileConcurrency: concurrency } = destination;
  const owner = { pipelineId: prepared.pipeline.id, destinationId };
  const found: Finding[] = [];
  const maxRemoved = allowRemovals ? null : limits.maxRemoved;
  const act = {
    act: 'unpublish',
    dryRun,
    ...owner,
    detail: { path: destinationPath, allow_removals: allowRemovals },
  } as const;
  const request = { owner, destinationPath, maxRemoved, dryRun, concurrency, layout };
  const { result, warnings } = await withAuditAndNotifiers(
    prepared,
    act,
    async (context) =>
      withDestination(context, destination, { readOnly: dryRun }, async (root) =>
        unpublishListed(context, root, destination, request, (warning) => void found.push(warning)),
      ).catch((error: unknown) => {
        if (error instanceof WaybillError && exitCodes[error.code] === 1) return error;
        throw error;
      }),
    (outcome) => (outcome instanceof WaybillError ? outcome : null),
  );
  return { outcome: result, warnings: [...prepared.warnings, ...found, ...warnings] };
}

function reportJson(report: UnpublishReport | null): object {
  if (report === null)
    return { bundle: null, outputs: [], bytes: 0, removesCatalog: false, releases: [], staying: [] };
  const { bundle, outputs, bytes, staying, releases } = report;
  return {
    bundle: bundle === null ? null : { path: bundle.source.path, created: bundle.created },
    outputs,
    bytes,
    removesCatalog: staying.length === 0,
    releases,
    staying,
  };
}

function print(
  { destinationPath, outputs, bytes, staying, releases }: UnpublishReport,
  dryRun: boolean,
  { data, style }: Output,
): void {
  for (const path of outputs)
    data(`${style.yellow('remove')}  ${destinationPath === '.' ? path : `${destinationPath}/${path}`}`);
  for (const { pipelineId, destinationId } of staying)
    data(`${style.dim('stays')}   what ${pipelineId}/${destinationId} has published there, and the catalog`);
  for (const id of releases) data(`${style.yellow('remove')}  release ${id}`);
  const what = `${plural(outputs.length, 'output')} (${formatSize(bytes)})`;
  const end = dryRun ? `${what} would be removed; nothing was deleted` : `${what} removed`;
  data(`${style.green('done')}  target=${destinationPath}: ${end}`);
}
