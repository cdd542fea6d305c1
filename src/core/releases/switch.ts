import type { LeaseTimes } from '../lease/lease.ts';
import type { Storage } from '../storage/storage.ts';
import {
  beforeSwitch,
  lastGood,
  resumed,
  rollbackTo,
  rolledBack,
  type Releases,
  type Rollback,
} from './ledger.ts';
import type { ReleaseId } from './release.ts';
import { changeReleases, readReleases, type ReleasesChange, type ReleasesContext } from './store.ts';
import { unusable, type Unusable } from './stored-releases.ts';

export interface SwitchOptions {
  /** Decide and report; nothing is changed, and no lease taken. */
  dryRun: boolean;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

interface ActivateOptions extends SwitchOptions {
  from?: ReleaseId | null;
  isStill?: () => Promise<boolean>;
}

export type SwitchResult =
  | { outcome: 'switched'; from: ReleaseId | null; to: ReleaseId }
  /** Readers see what they saw. */
  | { outcome: 'unchanged'; current: ReleaseId | null }
  | { outcome: 'refused'; refusal: SwitchRefusal };

/** Why nothing was switched; `id` is the release that was asked for, or would have been chosen. */
export type SwitchRefusal =
  | { why: 'foreign_pointer'; target: string }
  | { why: 'nothing_to_go_back_to' }
  | { why: 'rolled_back'; id: ReleaseId }
  | { why: 'being_removed'; id: ReleaseId }
  | { why: 'overtaken'; id: ReleaseId }
  /** Something that waybill did not make has the place of a channel's pointer. */
  | { why: 'name_taken'; name: string }
  | (Unusable & { id: ReleaseId });

/**
 * Makes a release current that was just published. Refuses one that was rolled back: it does not come back by
 * itself; with `from`, one that was made to follow another release than the one that is current now; and one
 * of which `isStill`, asked where no other switch can come between, says no. Throws as `changeReleases` does,
 * as all of these do.
 */
export async function activate(
  context: ReleasesContext,
  storage: Storage,
  to: ReleaseId,
  { from, isStill, ...options }: ActivateOptions,
): Promise<SwitchResult> {
  return deciding(context, storage, options, async (releases) => {
    if (rolledBack(releases).includes(to)) return refused({ why: 'rolled_back', id: to });
    const { current } = releases;
    const isOvertaken = from !== undefined && current !== from && current !== to;
    if (isOvertaken || (await isStill?.()) === false) return refused({ why: 'overtaken', id: to });
    return switchTo(context, storage, releases, to, null);
  });
}

/**
 * Makes an earlier release current, by default the last good one, and keeps what it goes back from (and what
 * was gone back from before) from coming back by itself.
 */
export async function rollBack(
  context: ReleasesContext,
  storage: Storage,
  target: ReleaseId | null,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return deciding(context, storage, options, async (releases) => {
    const to = target ?? lastGood(releases);
    if (to === null) return refused({ why: 'nothing_to_go_back_to' });
    return switchTo(context, storage, releases, to, rollbackTo(releases, to));
  });
}

/** Makes any release current, and lets what was rolled back come back. */
export async function promote(
  context: ReleasesContext,
  storage: Storage,
  to: ReleaseId,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return deciding(context, storage, options, async (releases) =>
    releases.current === to ? withoutRollback(releases) : switchTo(context, storage, releases, to, null),
  );
}

/** Lets what was rolled back come back with the next run that publishes it. */
export async function resume(
  context: ReleasesContext,
  storage: Storage,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return deciding(context, storage, options, async (releases) => withoutRollback(releases));
}

type Decision = ReleasesChange<SwitchResult>;

async function deciding(
  context: ReleasesContext,
  storage: Storage,
  { dryRun, leaseTimes }: SwitchOptions,
  decide: (releases: Releases) => Promise<Decision>,
): Promise<SwitchResult> {
  if (dryRun) return (await decide(await readReleases(storage))).result;
  return changeReleases(context, storage, decide, leaseTimes);
}

async function switchTo(
  { clock }: ReleasesContext,
  storage: Storage,
  releases: Releases,
  to: ReleaseId,
  rollback: Rollback | null,
): Promise<Decision> {
  const { current, foreignTarget, ledger } = releases;
  if (foreignTarget !== null) return refused({ why: 'foreign_pointer', target: foreignTarget });
  if (current === to) return { result: { outcome: 'unchanged', current }, next: null };
  if (ledger.removing.includes(to)) return refused({ why: 'being_removed', id: to });
  const obstacle = await unusable(storage, to);
  if (obstacle !== null) return refused({ ...obstacle, id: to });
  const now = clock.now().toISOString();
  return {
    result: { outcome: 'switched', from: current, to },
    next: { ledger: beforeSwitch(releases, to, now, rollback), current: to },
  };
}

function withoutRollback({ ledger, current }: Releases): Decision {
  const result = { outcome: 'unchanged', current } as const;
  return { result, next: ledger.rollbacks.length === 0 ? null : { ledger: resumed(ledger), current } };
}

function refused(refusal: SwitchRefusal): Decision {
  return { result: { outcome: 'refused', refusal }, next: null };
}
