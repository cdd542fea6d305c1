import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { Owner } from '../identity.ts';
import { isContention, type LeaseTimes } from '../lease/lease.ts';
import { readState } from '../catalog/store.ts';
import { sweepAbandoned, withLease } from '../lease/with-lease.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, WaybillError } from '../errors.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { apply, type Applied, type ApplyOptions } from './apply.ts';
import { changesDestination, decide, type DecisionInput } from './decide.ts';
import { observe } from './observe.ts';
import { planOutputs } from './outputs.ts';
import { refuseBucketRoot } from './bucket-root.ts';
import type { Plan, PlannedOutput } from './plan.ts';
import type { ActionResult, Progress } from './result.ts';

export interface BundlePublication {
  bundle: SourceBundle;
  owner: Owner;
  destination: DestinationConfig;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  dryRun: boolean;
  force: boolean;
  onProgress?: (progress: Progress) => void;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

/**
 * Between looking and taking the lease someone else may have published; then it is looked and decided again,
 * this often.
 */
const decisionsAtMost = 10;

/**
 * Publishes one bundle to one destination, or says what it would do. What goes wrong is told in the result,
 * as action `error`; nothing is thrown.
 */
export async function publishBundle(
  context: CoreContext,
  root: Storage,
  publication: BundlePublication,
): Promise<ActionResult> {
  let planned: readonly PlannedOutput[] = [];
  try {
    const storage = within(root, parseBundlePath(publication.destinationPath));
    const stored = await readState(storage);
    planned = await planOutputs(publication.bundle, {
      owner: publication.owner,
      destination: publication.destination,
      destinationPath: publication.destinationPath,
      recorded: stored.state.kind === 'valid' ? stored.state.catalog.outputs : [],
    });
    const input = { ...publication, workflow: publication.destination.workflow, planned };
    const plan = decide({ ...input, observed: await observe(storage, input, stored) });
    refuseBucketRoot(plan, publication.destination.location);
    tellPlan(publication, plan);
    if (plan.action === 'skip_same' && !publication.dryRun) await sweepAbandoned(context, storage);
    if (publication.dryRun || !changesDestination(plan.action))
      return resultOf(publication, plan, planned, null);
    const done = await execute(context, storage, publication, input);
    return resultOf(publication, done.plan, planned, done.applied);
  } catch (error) {
    context.log.error(
      { err: error, destination: publication.destination.id, bundle: publication.bundle.path },
      'publication failed',
    );
    return failedResult(publication, planned, stopped(error, context.signal));
  }
}

/** Takes the lease, looks and decides again under it, and applies. */
async function execute(
  context: CoreContext,
  storage: Storage,
  publication: BundlePublication,
  input: Omit<DecisionInput, 'observed'>,
): Promise<{ plan: Plan; applied: Applied | null }> {
  for (let decision = 1; ; decision += 1) {
    try {
      return await withLease(
        context,
        storage,
        async (lease) => {
          const plan = decide({ ...input, observed: await observe(storage, input, lease.found) });
          refuseBucketRoot(plan, publication.destination.location);
          if (!changesDestination(plan.action)) return { plan, applied: null };
          return {
            plan,
            applied: await apply(plan, { ...applyOptions(context, publication), storage, lease }),
          };
        },
        publication.leaseTimes,
      );
    } catch (error) {
      if (!isContention(error) || decision === decisionsAtMost) throw error;
      context.log.info(
        { destination: publication.destination.id, decision },
        'another publisher was quicker; looking again',
      );
    }
  }
}

function applyOptions(
  { clock, log, signal }: CoreContext,
  { destination, onProgress }: BundlePublication,
): Omit<ApplyOptions, 'storage' | 'lease'> {
  const destinationId = destination.id;
  return {
    clock,
    log,
    concurrency: destination.fileConcurrency,
    ...(signal === undefined ? {} : { signal }),
    onBytes: (count) => onProgress?.({ type: 'bytes', destinationId, count }),
    onOutput: (path) => onProgress?.({ type: 'output', destinationId, path }),
  };
}

function tellPlan({ onProgress, destination, destinationPath }: BundlePublication, plan: Plan): void {
  const bytes = plan.writes.reduce((sum, { size }) => sum + size, 0);
  onProgress?.({
    type: 'planned',
    destinationId: destination.id,
    destinationPath,
    action: plan.action,
    outputs: plan.writes.length,
    bytes,
  });
}

function resultOf(
  publication: BundlePublication,
  plan: Plan,
  planned: readonly PlannedOutput[],
  applied: Applied | null,
): ActionResult {
  return {
    bundle: publication.bundle.path,
    destinationPath: plan.destinationPath,
    action: plan.action,
    reason: plan.reason,
    changes: plan.changes,
    outputs: planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
    outputsWritten: applied?.outputsWritten ?? 0,
    outputsRemoved: applied?.outputsRemoved ?? 0,
    bytesWritten: applied?.bytesWritten ?? 0,
    error: refusal(plan),
  };
}

function refusal({ action, reason, destinationPath }: Plan): ActionResult['error'] {
  if (action !== 'fail_unmanaged' && action !== 'fail_conflict') return null;
  const code = action === 'fail_unmanaged' ? 'unmanaged_content' : 'state_conflict';
  const where = destinationPath === '.' ? 'the destination root' : `"${destinationPath}"`;
  return errorRecord(
    new WaybillError(code, `${where}: ${reason.message}`, {
      hint: 'look at what is there; if it may all be replaced, run once with --force, which deletes everything below that path',
    }),
  );
}

function failedResult(
  publication: BundlePublication,
  planned: readonly PlannedOutput[],
  error: unknown,
): ActionResult {
  return {
    bundle: publication.bundle.path,
    destinationPath: publication.destinationPath,
    action: 'error',
    reason: null,
    changes: [],
    outputs: planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
    outputsWritten: 0,
    outputsRemoved: 0,
    bytesWritten: 0,
    error: errorRecord(error),
  };
}

/** Whatever a stopped publication failed with, it failed because it was stopped. */
function stopped(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted !== true || error !== signal.reason) return error;
  if (error instanceof WaybillError) return error;
  return new WaybillError('aborted', 'the publication was stopped before it finished', {
    cause: error,
    hint: 'run again to finish it',
  });
}
