import { describeBundlePath } from '../../bundle-path.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../../errors.ts';
import { describeLocation } from '../../storage/location.ts';
import type { Applied } from '../apply/apply.ts';
import type { Plan, PlannedOutput, Reason } from '../plan.ts';
import type { ActionResult, DestinationFailure, DestinationResult } from './result.ts';

/*
 * Results of the publication to one destination: of one bundle, and as a whole. Pure.
 */

/** What was done at a destination; in place nothing is linked. */
export type Done = Applied & Pick<ActionResult, 'outputsLinked' | 'bytesLinked'>;

/** What was done by this plan, or, if nothing was applied, what it would do or why it refuses. */
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

/** A publication that failed. `planned` is empty if it failed before the outputs were planned. */
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

/** Marks a destination as failed as a whole, with an error that belongs to no single bundle. */
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

/** What was done by a publication that found nothing to do: every output stayed as it was. Pure. */
export function allKept(planned: readonly PlannedOutput[]): Done {
  const bytesKept = planned.reduce((sum, { size }) => sum + size, 0);
  return { ...nothingApplied, outputsKept: planned.length, bytesKept };
}

function outputsOf(planned: readonly PlannedOutput[]): ActionResult['outputs'] {
  return planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url }));
}

const forceHint =
  'look at what is there; if it may all be replaced, run once with --force, which deletes everything below that path';

/** Where force would do harm, or more than is needed. */
const hints: Partial<Record<Reason['code'], string>> = {
  content_of_catalog_above: 'publish to another path, or have its owner publish without those files first',
  path_blocked:
    'an additive publication removes nothing: publish once with `workflow: replacement`, which removes what this pipeline no longer has, prune the old path, or publish to another path',
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
