import type { DestinationConfig } from '../../config/config.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../lib/errors.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import type { ReleaseId } from '../../releases/release.ts';
import { describeLocation } from '../../storage/backends.ts';
import type { AppliedPaths } from '../apply/apply.ts';
import type { Plan, PlannedOutput, Reason } from '../plan.ts';
import type { ActionResult, DestinationFailure, DestinationResult } from './result.ts';

/*
 * Builds the results of publications, for destinations and for single bundles.
 */

/** The code of the warning about a bundle with a `created` time in the future. */
export const createdInFuture = 'created_in_future';

/**
 * Returns the result for a plan. Leave out `applied` if the plan was not carried out, either because of a dry
 * run or because publishing was refused.
 */
export function plannedResult(
  bundlePath: string,
  plan: Plan,
  planned: readonly PlannedOutput[],
  applied: AppliedPaths | null,
): ActionResult {
  return {
    bundle: bundlePath,
    destinationPath: plan.destinationPath,
    action: plan.action,
    reason: plan.reason,
    changes: plan.changes,
    unkept: plan.unkept,
    outputs: outputsOf(planned),
    release: null,
    channel: null,
    url: null,
    ...(applied === null ? noCounts : countsOf(applied, planned, plan)),
    error: refusal(plan),
  };
}

/** Returns the result for a plan that publishes `release`. */
export function releaseResult(
  bundlePath: string,
  plan: Plan,
  planned: readonly PlannedOutput[],
  applied: AppliedPaths | null,
  release: ReleaseId | null,
): ActionResult {
  const result = plannedResult(bundlePath, plan, planned, applied);
  const { error } = result;
  const hint = releaseHints[plan.reason.code] ?? error?.hint ?? null;
  return { ...result, release, error: error === null ? null : { ...error, hint } };
}

/** Returns the result for a publication that failed. `planned` is empty if it failed before it had a plan. */
export function failedResult(
  bundlePath: string,
  destinationPath: string,
  planned: readonly PlannedOutput[],
  error: unknown,
): ActionResult {
  return {
    ...nothingDecided,
    bundle: bundlePath,
    destinationPath,
    outputs: outputsOf(planned),
    error: errorRecord(error),
  };
}

/** Returns the result that a destination starts with, before anything is published to it. */
export function emptyDestination({ id, location }: DestinationConfig): DestinationResult {
  return {
    destinationId: id,
    location: describeLocation(location),
    status: 'ok',
    actions: [],
    orphans: [],
    warnings: [],
    error: null,
  };
}

/** Marks a destination as failed because of an error that affects more than a single bundle. */
export function withDestinationFailure(
  result: DestinationResult,
  { mapping }: Pick<DestinationConfig, 'mapping'>,
  error: ErrorRecord,
): DestinationResult {
  const failure: DestinationFailure = {
    ...nothingDecided,
    bundle: null,
    destinationPath: mapping === 'fixed' ? '.' : null,
    error,
  };
  return { ...result, status: 'failed', actions: [...result.actions, failure], error };
}

const noCounts = {
  outputsWritten: 0,
  outputsLinked: 0,
  outputsKept: 0,
  outputsRemoved: 0,
  bytesWritten: 0,
  bytesLinked: 0,
  bytesKept: 0,
};

const nothingDecided = {
  action: 'error' as const,
  reason: null,
  changes: [],
  unkept: [],
  outputs: [],
  release: null,
  channel: null,
  url: null,
  ...noCounts,
};

function countsOf(
  { written, linked }: AppliedPaths,
  planned: readonly PlannedOutput[],
  { removes }: Pick<Plan, 'removes'>,
): typeof noCounts {
  const counts = { ...noCounts, outputsRemoved: removes.length };
  for (const { path, size } of planned) {
    const how = written.has(path) ? 'Written' : linked.has(path) ? 'Linked' : 'Kept';
    counts[`outputs${how}`] += 1;
    counts[`bytes${how}`] += size;
  }
  return counts;
}

function outputsOf(planned: readonly PlannedOutput[]): ActionResult['outputs'] {
  return planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url }));
}

const andForce = (what: string): string =>
  `or publish to another path; --force deletes ${what} and everything else there, and --force --dry-run lists it first`;
const forceHint = `move these files away, ${andForce('them')}`;

/** Hints for cases where `--force` would do damage, or more than necessary. */
const hints: Partial<Record<Reason['code'], string>> = {
  state_invalid: `restore .publisher.json from a backup, ${andForce('the published files')}`,
  state_unsupported: `use a newer waybill, ${andForce('the published files')}`,
  path_of_other_owner:
    'publish to another path, or unpublish these files first; if they have a former id of this pipeline or destination, set that id again',
  content_of_catalog_above: 'publish to another path, or have its owner publish without those files first',
  path_blocked:
    'publish once with `workflow: replacement` to remove outputs that this pipeline no longer has, prune the old path, or publish to another path',
};

const keptForRollback = 'the existing release is kept for a rollback';

/** Hints for the releases layout, where `--force` does not delete anything. */
const releaseHints: typeof hints = {
  state_invalid: `restore its catalog, or run once with --force to publish a new release; ${keptForRollback}`,
  state_unsupported: `use a newer waybill, or run once with --force to publish a new release; ${keptForRollback}`,
  release_of_other_owner: `publish to another path, or run once with --force to publish a release of this pipeline; ${keptForRollback}`,
};

function refusal({ action, reason, destinationPath }: Plan): ActionResult['error'] {
  if (action !== 'fail_unmanaged' && action !== 'fail_conflict') return null;
  const code = action === 'fail_unmanaged' ? 'unmanaged_content' : 'state_conflict';
  const where = describeBundlePath(destinationPath);
  return errorRecord(
    new WaybillError(code, `${where}: ${reason.message}; nothing was changed`, {
      hint: hints[reason.code] ?? forceHint,
    }),
  );
}
