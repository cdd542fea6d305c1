import type { ReleaseId } from '../../releases/release.ts';
import type { Plan, PlannedOutput, ReasonCode } from '../plan.ts';
import { type Done, plannedResult } from '../results/action-result.ts';
import type { ActionResult } from '../results/result.ts';
import type { Filled } from './fill-release.ts';

/*
 * Results of publishing as a release. Pure.
 */

const isKept = 'the existing release is kept for a rollback';

/** With releases, --force deletes nothing. */
const hints: Partial<Record<ReasonCode, string>> = {
  state_invalid: `restore its catalog, or run once with --force to publish a new release; ${isKept}`,
  state_unsupported: `use a newer waybill, or run once with --force to publish a new release; ${isKept}`,
  release_of_other_owner: `publish to another path, or run once with --force to publish a release of this pipeline; ${isKept}`,
};

/** The result of a plan about `release`. */
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

/** The counters of a published release. */
export function releasedBy(
  { written, linked }: Filled,
  planned: readonly PlannedOutput[],
  { removes }: Pick<Plan, 'removes'>,
): Done {
  const applied: Done = {
    outputsWritten: 0,
    outputsLinked: 0,
    outputsKept: 0,
    outputsRemoved: removes.length,
    bytesWritten: 0,
    bytesLinked: 0,
    bytesKept: 0,
  };
  for (const { path, size } of planned) {
    const how = written.has(path) ? 'Written' : linked.has(path) ? 'Linked' : 'Kept';
    applied[`outputs${how}`] += 1;
    applied[`bytes${how}`] += size;
  }
  return applied;
}

/** Reports a publication that only points a channel at the current release. */
export function asChannelSet(result: ActionResult, channel: string, release: ReleaseId): ActionResult {
  const message = `channel "${channel}" leads to release ${release}, which is already current`;
  return { ...result, action: 'replace_catalog', reason: { code: 'channel_set', message } };
}
