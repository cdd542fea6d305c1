import type { LeaseContext } from '../catalog/lease/with-lease.ts';
import { WaybillError } from '../lib/errors.ts';
import type { Storage } from '../storage/storage.ts';
import {
  createRollback,
  emptyLedger,
  lastGoodRelease,
  type Releases,
  type Rollback,
  rolledBackReleases,
  withActivation,
  withoutRollbacks,
} from './ledger.ts';
import type { ReleaseId } from './release.ts';
import { changeReleases, readReleases, type ReleasesChange } from './releases-store.ts';
import { type SwitchRefusal, unusableReason } from './stored-releases.ts';

/*
 * Makes a release current, either after publishing it or because of a rollback or promotion. All functions
 * here throw the same errors as `changeReleases`.
 */

export interface SwitchOptions {
  /** Only report what would happen. Nothing is changed, and no lease is taken. */
  dryRun: boolean;
}

interface ActivationOptions extends SwitchOptions {
  /** Refuse unless this release is current or `to` already is; null if no release should be current. */
  from?: ReleaseId | null;
  /** Refuse if this returns false. By the time it is called, no other switch can come first. */
  isStill?: () => Promise<boolean>;
}

export type SwitchResult =
  | { outcome: 'switched'; from: ReleaseId | null; to: ReleaseId }
  /** `resumed` has the releases whose rollback ended. */
  | { outcome: 'unchanged'; current: ReleaseId | null; resumed?: readonly ReleaseId[] }
  | { outcome: 'refused'; refusal: SwitchRefusal };

/**
 * Makes a release current that was just published. If it was rolled back before, this refuses, because only a
 * promotion may bring it back.
 */
export async function activate(
  context: LeaseContext,
  storage: Storage,
  to: ReleaseId,
  { from, isStill, ...options }: ActivationOptions,
): Promise<SwitchResult> {
  return decideUnderLock(context, storage, options, async (releases) => {
    if (rolledBackReleases(releases).includes(to)) return refused({ why: 'rolled_back', id: to });
    const { current } = releases;
    const isOvertaken = from !== undefined && current !== from && current !== to;
    if (isOvertaken || (await isStill?.()) === false) return refused({ why: 'overtaken', id: to });
    return switchTo(context, storage, releases, { to });
  });
}

/**
 * Makes an earlier release current. By default, this is the last good one. From then on, runs do not bring
 * back the release that was rolled back, or any that were rolled back before.
 */
export async function rollBack(
  context: LeaseContext,
  storage: Storage,
  target: ReleaseId | null,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return decideIfPresent(context, storage, options, async (releases) => {
    const to = target ?? lastGoodRelease(releases);
    if (to === null)
      return refused({ why: releases.current === null ? 'no_release' : 'nothing_to_go_back_to' });
    return switchTo(context, storage, releases, { to, rollback: createRollback(releases, to) });
  });
}

/** Makes a release current, whichever it is. Ends the rollback. */
export async function promote(
  context: LeaseContext,
  storage: Storage,
  to: ReleaseId,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return decideUnderLock(context, storage, options, async (releases) =>
    releases.current === to ? withoutRollback(releases) : switchTo(context, storage, releases, { to }),
  );
}

/** Ends the rollback. A release that was rolled back becomes current as soon as a run publishes it again. */
export async function resume(
  context: LeaseContext,
  storage: Storage,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return decideIfPresent(context, storage, options, async (releases) => {
    const { result, next } = withoutRollback(releases);
    return { result: { ...result, resumed: rolledBackReleases(releases) }, next };
  });
}

type SwitchDecision = ReleasesChange<SwitchResult>;

async function decideUnderLock(
  context: LeaseContext,
  storage: Storage,
  { dryRun }: SwitchOptions,
  decide: (releases: Releases) => Promise<SwitchDecision>,
): Promise<SwitchResult> {
  if (dryRun) return (await decide(await readReleases(storage))).result;
  return changeReleases(context, storage, decide);
}

/**
 * Like `decideUnderLock`, for a bundle path that may not exist. Takes no lease if there is no ledger and
 * nothing to change, because the lease would create the directory.
 */
async function decideIfPresent(
  context: LeaseContext,
  storage: Storage,
  options: SwitchOptions,
  decide: (releases: Releases) => Promise<SwitchDecision>,
): Promise<SwitchResult> {
  const found = await readReleases(storage);
  if (found.ledger === emptyLedger) {
    const { result, next } = await decide(found);
    if (next === null) return result;
  }
  return decideUnderLock(context, storage, options, decide);
}

async function switchTo(
  { clock }: LeaseContext,
  storage: Storage,
  releases: Releases,
  { to, rollback }: { to: ReleaseId; rollback?: Rollback },
): Promise<SwitchDecision> {
  const { current, foreignTarget, ledger } = releases;
  if (foreignTarget !== null) return refused({ why: 'foreign_pointer', target: foreignTarget });
  if (current === to) return { result: { outcome: 'unchanged', current }, next: null };
  if (ledger.removing.includes(to)) return refused({ why: 'being_removed', id: to });
  const obstacle = await unusableReason(storage, to);
  if (obstacle !== null) return refused({ ...obstacle, id: to });
  const now = clock.now().toISOString();
  return {
    result: { outcome: 'switched', from: current, to },
    next: { ledger: withActivation(releases, to, now, rollback ?? null), current: to },
  };
}

function withoutRollback({ ledger, current }: Releases): SwitchDecision {
  const result = { outcome: 'unchanged', current } as const;
  const next = ledger.rollbacks.length === 0 ? null : { ledger: withoutRollbacks(ledger), current };
  return { result, next };
}

function refused(refusal: SwitchRefusal): SwitchDecision {
  return { result: { outcome: 'refused', refusal }, next: null };
}

/** Returns the error for a switch that was refused. `where` is the bundle path, as it appears in messages. */
export function switchRefused(refusal: SwitchRefusal, where: string): WaybillError {
  const { message, hint } = explain(refusal);
  const end = refusal.why === 'no_release' ? '' : '; the current release is unchanged';
  return new WaybillError('release_unusable', `${where}: ${message}${end}`, { hint });
}

const others = 'run waybill releases list to see the other releases';

function explain(refusal: SwitchRefusal): { message: string; hint: string } {
  switch (refusal.why) {
    case 'foreign_pointer':
      return {
        message: `the pointer leads to "${refusal.target}", which is not a release`,
        hint: 'waybill did not create it: check it, move it away and run again',
      };
    case 'no_release':
      return {
        message: 'there are no releases yet, so there is nothing to roll back to',
        hint: 'publish first; a rollback needs two releases',
      };
    case 'nothing_to_go_back_to':
      return {
        message: 'there is no earlier release to roll back to',
        hint: 'choose a release with waybill releases rollback ID; to list them: waybill releases list',
      };
    case 'rolled_back':
      return {
        message: `release ${refusal.id} was rolled back`,
        hint: 'run waybill releases promote to make it current again',
      };
    case 'being_removed':
      return { message: `release ${refusal.id} is being removed`, hint: others };
    case 'overtaken':
      return {
        message: `another release became current before ${refusal.id} could`,
        hint: 'run again to decide on the new state',
      };
    case 'name_taken':
      return {
        message: `"${refusal.name}" exists but is not the pointer of the channel with this name`,
        hint: 'check it and move it away, or rename the channel',
      };
    case 'not_found':
      return { message: `there is no release ${refusal.id}`, hint: others };
    case 'unfinished':
      return {
        message: `release ${refusal.id} is not complete: its publication was interrupted`,
        hint: 'publish its bundle again to finish it',
      };
    case 'unreadable':
      return { message: `the catalog of release ${refusal.id} cannot be read`, hint: others };
    case 'damaged': {
      const more = refusal.others === 0 ? 'is' : `and ${refusal.others} more are`;
      return {
        message: `release ${refusal.id} is damaged: "${refusal.path}" ${more} missing or of another size`,
        hint: `run waybill verify --repair to restore the files, or ${others}`,
      };
    }
  }
}
