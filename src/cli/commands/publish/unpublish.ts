import type { DestinationConfig } from '../../../core/config/config.ts';
import { type ErrorRecord, errorRecord, type Finding, WaybillError } from '../../../core/lib/errors.ts';
import { withReleasers } from '../../../core/lib/lifecycle.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import { unpublishListed } from '../../../core/publish/root-index/listed-changes.ts';
import type { UnpublishReport } from '../../../core/publish/unpublish/unpublication.ts';
import type { Layout } from '../../../core/releases/release.ts';
import { exitCodes } from '../../exit-codes.ts';
import { makeOutput, type Output, plural } from '../../output/output.ts';
import { untilStopped } from '../../process/stop-signal.ts';
import { audited } from '../../setup/audited.ts';
import type { ConfiguredOptions } from '../../setup/command-options.ts';
import {
  givenBundlePath,
  onlyDestination,
  pipelineOf,
  type SetUp,
  setUp,
  withNotifier,
} from '../../setup/set-up.ts';

export type UnpublishOptions = ConfiguredOptions & {
  pipeline: string;
  destination?: string;
  layout?: Layout;
  dryRun: boolean;
  allowRemovals: boolean;
};

/** `waybill unpublish`. */
export async function unpublishBundlePath(given: string, options: UnpublishOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  const destinationPath = givenBundlePath(given);
  return untilStopped((signal) => unpublishNow(destinationPath, options, output, signal));
}

async function unpublishNow(
  destinationPath: string,
  options: UnpublishOptions,
  output: Output,
  signal: AbortSignal,
): Promise<number> {
  const { dryRun, pipeline: pipelineId } = options;
  const { config, verbose } = options;
  const prepared = await setUp({
    config,
    output,
    signal,
    pipelineIds: [pipelineId],
    notifies: true,
    verbose,
  });
  const destination = onlyDestination(pipelineOf(prepared.config, pipelineId), options.destination);
  const { outcome, warnings } = await attempt(prepared, destinationPath, destination, options);
  const report = outcome instanceof WaybillError ? null : outcome;
  const error = outcome instanceof WaybillError ? errorRecord(outcome) : null;
  if (output.isJson)
    output.json('unpublish', {
      ...{ dryRun, pipelineId, destinationId: destination.id, destinationPath },
      ...told(report),
      ...{ error, warnings },
    });
  else {
    for (const warning of warnings) output.warn(warning);
    if (report !== null) print(report, dryRun, output);
    if (error !== null) printFailure(error, output);
  }
  return outcome instanceof WaybillError ? 1 : 0;
}

/**
 * Returns a failure at the bundle path as an outcome. Throws for a missing bundle path, as for other bad
 * input.
 */
async function attempt(
  prepared: SetUp,
  destinationPath: string,
  destination: DestinationConfig,
  { pipeline: pipelineId, layout, dryRun, allowRemovals }: UnpublishOptions,
): Promise<{ outcome: UnpublishReport | WaybillError; warnings: Finding[] }> {
  const { id: destinationId, location, limits, fileConcurrency: concurrency } = destination;
  const owner = { pipelineId, destinationId };
  const found: Finding[] = [];
  const maxRemoved = allowRemovals ? null : limits.maxRemoved;
  const act = {
    act: 'unpublish',
    dryRun,
    ...owner,
    detail: { path: destinationPath, allow_removals: allowRemovals },
  } as const;
  const { result, warnings } = await audited(
    prepared,
    act,
    (recorded) =>
      withNotifier(
        { ...prepared, context: recorded },
        { dryRun, pipelineIds: [pipelineId] },
        async (context) =>
          withReleasers(async (onRelease) => {
            const root = await context.openStorage(location, { readOnly: dryRun, dryRun });
            onRelease(() => root.close());
            const request = {
              ...{ owner, destinationPath, maxRemoved, dryRun, concurrency },
              ...(layout === undefined ? {} : { layout }),
            };
            return unpublishListed(
              context,
              root,
              destination,
              request,
              (warning) => void found.push(warning),
            );
          }).catch((error: unknown) => {
            if (error instanceof WaybillError && exitCodes[error.code] === 1) return error;
            throw error;
          }),
      ),
    ({ result: outcome }) => (outcome instanceof WaybillError ? outcome : null),
  );
  return { outcome: result, warnings: [...prepared.warnings, ...found, ...warnings] };
}

function told(report: UnpublishReport | null): object {
  if (report === null)
    return { bundle: null, outputs: [], bytes: 0, removesCatalog: false, releases: [], staying: [] };
  const { bundle, outputs, bytes, staying, releases } = report;
  return {
    bundle: bundle === null ? null : { path: bundle.source.path, created: bundle.created },
    ...{ outputs, bytes, removesCatalog: staying.length === 0, releases, staying },
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

function printFailure({ message, hint }: ErrorRecord, { data, style }: Output): void {
  data(`${style.red('failed')}  ${message}`);
  if (hint !== null) data(`${style.cyan('next:')} ${hint}`);
}
