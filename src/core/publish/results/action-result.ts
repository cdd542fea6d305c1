import type { DestinationConfig } from '../../config/config.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../lib/errors.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import { describeLocation } from '../../storage/backends.ts';
import type { Applied } from '../apply/apply.ts';
import type { Plan, PlannedOutput, Reason } from '../plan.ts';
import type { ActionResult, DestinationFailure, DestinationResult } from './result.ts';

/*
 * Builds the results of publishing to one destination: per bundle and for the destination. Pure.
 */

/** The counters of an applied plan. Nothing is linked with the in-place layout. */
export type Done = Applied & Pick<ActionResult, 'outputsLinked' | 'bytesLinked'>;

/** The result of a plan. Without `applied`, the plan was not applied, because of a dry run or a refusal. */
export function plannedResult(
  bundlePath: string,
  plan: Plan,
  planned: readonly PlannedOutput[],
  applied: Applied | Done | null,
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
    ...nothingApplied,
    ...applied,
    error: refusal(plan),
  };
}

/** The result of a failed publication. `planned` is empty if it failed before planning. */
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

/** The result of a destination before anything was published there. */
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

/** Marks a destination as failed, with an error that is not specific to one bundle. */
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

const nothingApplied: Done = {
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
  ...nothingApplied,
};

/** The counters of a publication that found nothing to do. Pure. */
export function allKept(planned: readonly PlannedOutput[]): Done {
  const bytesKept = planned.reduce((sum, { size }) => sum + size, 0);
  return { ...nothingApplied, outputsKept: planned.length, bytesKept };
}

function outputsOf(planned: readonly PlannedOutput[]): ActionResult['outputs'] {
  return planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url }));
}

const forceHint =
  'check the existing files; to replace them, run once with --force, which deletes everything below that path';

/** Hints for refusals where --force would do harm or more than needed. */
const hints: Partial<Record<Reason['code'], string>> = {
  content_of_catalog_above: 'publish to another path, or have its owner publish without those files first',
  path_blocked:
    'publish once with `workflow: replacement` to remove outputs that this pipeline no longer has, prune the old path, or publish to another path',
};

function refusal({ action, reason, destinationPath }: Plan): ActionResult['error'] {
  if (action !== 'fail_unmanaged' && action !== 'fail_conflict') return null;
  const code = action === 'fail_unmanaged' ? 'unmanaged_content' : 'state_conflict';
  const where = describeBundlePath(destinationPath);
  return errorRecord(
    new WaybillError(code, `${where}: ${reason.message}`, {
      hint: hints[reason.code] ?? forceHint,
    }),
  );
}
