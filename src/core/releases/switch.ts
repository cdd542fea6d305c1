import type { LeaseContext } from '../catalog/lease/with-lease.ts';
import type { CoreContext } from '../context.ts';
import { WaybillError } from '../lib/errors.ts';
import { describeBundlePath } from '../lib/paths.ts';
import type { Occurrence } from '../notify/event.ts';
import type { Owner } from '../storage/identity.ts';
import type { Storage } from '../storage/storage.ts';
import { removeChannel } from './channels.ts';
import {
  beforeSwitch,
  emptyLedger,
  lastGood,
  type Releases,
  resumed,
  type Rollback,
  rollbackTo,
  rolledBack,
} from './ledger.ts';
import { type Place, releaseNamed, unknownName } from './place.ts';
import type { ReleaseId } from './release.ts';
import { changeReleases, readReleases, type ReleasesChange } from './store.ts';
import { type SwitchRefusal, unusable } from './stored-releases.ts';

/*
 * Makes a release current, either after publishing it or because of a rollback or promotion. All functions
 * here throw the same errors as `changeReleases`.
 */

export interface SwitchOptions {
  /** Only report what would happen. Nothing is changed, and no lease is taken. */
  dryRun: boolean;
}

interface ActivateOptions extends SwitchOptions {
  /** Refuse unless this release is current or `to` already is; null if no release should be current. */
  from?: ReleaseId | null;
  /** Refuse if this returns false. By the time it is called, no other switch can come first. */
  isStill?: () => Promise<boolean>;
}

export type SwitchResult =
  | { outcome: 'switched'; from: ReleaseId | null; to: ReleaseId }
  | { outcome: 'unchanged'; current: ReleaseId | null }
  | { outcome: 'refused'; refusal: SwitchRefusal };

/**
 * Makes a release current that was just published. If it was rolled back before, this refuses, because only a
 * promotion may bring it back.
 */
export async function activate(
  context: LeaseContext,
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
 * Makes an earlier release current. By default, this is the last good one. From then on, runs do not bring
 * back the release that was rolled back, or any that were rolled back before.
 */
export async function rollBack(
  context: LeaseContext,
  storage: Storage,
  target: ReleaseId | null,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return decidingIfAny(context, storage, options, async (releases) => {
    const to = target ?? lastGood(releases);
    if (to === null)
      return refused({ why: releases.current === null ? 'no_release' : 'nothing_to_go_back_to' });
    return switchTo(context, storage, releases, to, rollbackTo(releases, to));
  });
}

/** Makes a release current, whichever it is. Ends the rollback. */
export async function promote(
  context: LeaseContext,
  storage: Storage,
  to: ReleaseId,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return deciding(context, storage, options, async (releases) =>
    releases.current === to ? withoutRollback(releases) : switchTo(context, storage, releases, to, null),
  );
}

/** Ends the rollback. A release that was rolled back becomes current as soon as a run publishes it again. */
export async function resume(
  context: LeaseContext,
  storage: Storage,
  options: SwitchOptions,
): Promise<SwitchResult> {
  return decidingIfAny(context, storage, options, async (releases) => withoutRollback(releases));
}

type Decision = ReleasesChange<SwitchResult>;

async function deciding(
  context: LeaseContext,
  storage: Storage,
  { dryRun }: SwitchOptions,
  decide: (releases: Releases) => Promise<Decision>,
): Promise<SwitchResult> {
  if (dryRun) return (await decide(await readReleases(storage))).result;
  return changeReleases(context, storage, decide);
}

/**
 * Like `deciding`, for a bundle path that may not exist. Takes no lease if there is no ledger and nothing to
 * change, because the lease would create the directory.
 */
async function decidingIfAny(
  context: LeaseContext,
  storage: Storage,
  options: SwitchOptions,
  decide: (releases: Releases) => Promise<Decision>,
): Promise<SwitchResult> {
  const found = await readReleases(storage);
  if (found.ledger === emptyLedger) {
    const { result, next } = await decide(found);
    if (next === null) return result;
  }
  return deciding(context, storage, options, decide);
}

async function switchTo(
  { clock }: LeaseContext,
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

/** Returns the error for a switch that was refused. `where` is the bundle path, as it appears in messages. */
export function switchRefused(refusal: SwitchRefusal, where: string): WaybillError {
  const { message, hint } = explain(refusal);
  const end = refusal.why === 'no_release' ? '' : '; the current release is unchanged';
  return new WaybillError('release_unusable', `${where}: ${message}${end}`, { hint });
}

const others = 'run `waybill releases list` to see the other releases';

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
        hint: 'choose a release with `waybill releases rollback ID`; `waybill releases list` lists them',
      };
    case 'rolled_back':
      return {
        message: `release ${refusal.id} was rolled back`,
        hint: 'run `waybill releases promote` to make it current again',
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
        hint: `run \`waybill verify --repair\` to restore the files, or ${others}`,
      };
    }
  }
}

/*
 * Implements the `releases` commands, and the same operations in the API, for a bundle path.
 */

/** A request to switch releases. If a rollback has no `release`, it goes to the last good one. */
export type SwitchRequest =
  | { verb: 'rollback'; release?: string }
  | { verb: 'promote'; release: string }
  | { verb: 'resume' }
  | { verb: 'drop'; channel: string };

/**
 * The release that was current before the switch, and the one that is current now or, in a dry run, would be.
 * Plain data.
 */
export interface Switched {
  from: ReleaseId | null;
  to: ReleaseId | null;
}

/**
 * Does what the request asks for at a bundle path. If the current release changes, sends a notification.
 * Idempotent. Throws `release_not_found`, `channel_not_found`, `release_unusable` if the switch is refused,
 * and the same errors as `changeReleases`.
 */
export async function switchAt(
  context: CoreContext,
  owner: Owner,
  place: Place,
  request: SwitchRequest,
  options: SwitchOptions,
): Promise<Switched> {
  const { destinationPath } = place;
  if (request.verb === 'drop') return dropChannel(context, place, request.channel, options);
  const done = await performSwitch(context, place, request, options);
  if (done.outcome === 'refused') throw switchRefused(done.refusal, describeBundlePath(destinationPath));
  if (done.outcome === 'unchanged') return { from: done.current, to: done.current };
  const { from, to } = done;
  if (!options.dryRun && request.verb !== 'resume')
    context.notify?.(switchOccurrence(owner, { destinationPath, from, to }, request.verb));
  return { from, to };
}

async function dropChannel(
  context: CoreContext,
  { storage, destinationPath }: Place,
  name: string,
  { dryRun }: SwitchOptions,
): Promise<Switched> {
  const { channels, ledger } = await readReleases(storage);
  const known = ledger.channels.map((channel) => channel.name);
  if (!known.includes(name)) {
    const where = `at ${describeBundlePath(destinationPath)}`;
    throw unknownName('channel_not_found', 'channel', name, known, where);
  }
  if (!dryRun) await removeChannel(context, storage, name);
  return { from: channels.get(name) ?? null, to: null };
}

async function performSwitch(
  context: CoreContext,
  place: Place,
  request: Exclude<SwitchRequest, { verb: 'drop' }>,
  options: SwitchOptions,
): Promise<SwitchResult> {
  const { storage } = place;
  switch (request.verb) {
    case 'rollback': {
      const { release } = request;
      const target = release === undefined ? null : await releaseNamed(place, release);
      return rollBack(context, storage, target, options);
    }
    case 'promote':
      return promote(context, storage, await releaseNamed(place, request.release), options);
    case 'resume':
      return resume(context, storage, options);
  }
}

/** Returns the event for a switch that a client requested. */
function switchOccurrence(
  { pipelineId, destinationId }: Owner,
  { destinationPath, from, to }: { destinationPath: string; from: ReleaseId | null; to: ReleaseId },
  verb: 'rollback' | 'promote',
): Occurrence {
  return {
    type: verb === 'rollback' ? 'release.rolled_back' : 'release.activated',
    data: {
      pipeline_id: pipelineId,
      destination_id: destinationId,
      destination_path: destinationPath,
      release: to,
      previous: from,
    },
  };
}
