import type { ReleaseId } from '../../releases/release.ts';
import type { Plan, PlannedOutput, ReasonCode } from '../plan.ts';
import { plannedResult, type Done } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import type { Filled } from './fill-release.ts';

/*
 * Results of publications into releases. Pure.
 */

const stays = 'the release that is there stays, and can be gone back to';

/** Force deletes nothing here. */
const hints: Partial<Record<ReasonCode, string>> = {
  state_invalid: `restore its catalog, or run once with --force, which publishes a new release; ${stays}`,
  state_unsupported: `use a newer waybill, or run once with --force, which publishes a new release; ${stays}`,
  release_of_other_owner: `publish to another path, or run once with --force, which publishes a release of this pipeline; ${stays}`,
};

/** What became of a plan; `release` is the one that it is about. */
export function releaseResult(
  bundlePath: string,
  plan: Plan,
  planned: readonly PlannedOutput[],
  { applied, release }: { applied: Done | null; release: ReleaseId | null },
): ActionResult {
  const result = plannedResult(bundlePath, plan, planned, applied);
  const { error } = result;
  const hint = hints[plan.reason.code] ?? error?.hint ?? null;
  return { ...result, release, error: error === null ? null : { ...error, hint } };
}

/** What was done to publish the planned outputs in a release. */
export function releasedBy(
  { written, linked }: Filled,
  planned: readonly PlannedOutput[],
  { removes }: Pick<Plan, 'removes'>,
): Done {
  const applied: Done = {
    ...{ outputsWritten: 0, outputsLinked: 0, outputsKept: 0, outputsRemoved: removes.length },
    ...{ bytesWritten: 0, bytesLinked: 0, bytesKept: 0 },
  };
  for (const { path, size } of planned) {
    const how = written.has(path) ? 'Written' : linked.has(path) ? 'Linked' : 'Kept';
    applied[`outputs${how}`] += 1;
    applied[`bytes${how}`] += size;
  }
  return applied;
}
