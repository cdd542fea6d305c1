import type { CoreContext } from '../context.ts';
import { describeBundlePath } from '../lib/paths.ts';
import type { Occurrence } from '../notify/event.ts';
import type { Owner } from '../storage/identity.ts';
import { type BundlePlace, releaseNamed, unknownName } from './bundle-place.ts';
import { removeChannel } from './channels.ts';
import type { ReleaseId } from './release.ts';
import { readReleases } from './releases-store.ts';
import { promote, resume, rollBack, type SwitchOptions, switchRefused, type SwitchResult } from './switch.ts';

/*
 * Implements the `releases` commands, and the same operations in the API, for a bundle path.
 */

/** A switch of releases. If a rollback has no `release`, it goes to the last good one. */
export type Switch =
  | { verb: 'rollback'; release?: string }
  | { verb: 'promote'; release: string }
  | { verb: 'resume' }
  | { verb: 'drop'; channel: string };

export type SwitchRequest = Switch & SwitchOptions;

/**
 * The release that was current before the switch, and the one that is current now or, in a dry run, would be.
 * Plain data.
 */
export interface AppliedSwitch {
  from: ReleaseId | null;
  to: ReleaseId | null;
  /** Only after a resume: the releases that were rolled back, and that a run may publish again. */
  resumed?: readonly ReleaseId[];
}

/**
 * Does what the request asks for at a bundle path. If the current release changes, sends a notification.
 * Idempotent. Throws `release_not_found`, `channel_not_found`, `release_unusable` if the switch is refused,
 * and the same errors as `changeReleases`.
 */
export async function switchAt(
  context: CoreContext,
  owner: Owner,
  place: BundlePlace,
  request: SwitchRequest,
): Promise<AppliedSwitch> {
  const { destinationPath } = place;
  if (request.verb === 'drop') return dropChannel(context, place, request);
  const done = await performSwitch(context, place, request);
  if (done.outcome === 'refused') throw switchRefused(done.refusal, describeBundlePath(destinationPath));
  if (done.outcome === 'unchanged') return { from: done.current, to: done.current, resumed: done.resumed };
  const { from, to } = done;
  if (!request.dryRun && request.verb !== 'resume')
    context.notify?.(switchOccurrence(owner, { destinationPath, from, to }, request.verb));
  return { from, to };
}

async function dropChannel(
  context: CoreContext,
  { storage, destinationPath }: BundlePlace,
  { channel: name, dryRun }: SwitchRequest & { verb: 'drop' },
): Promise<AppliedSwitch> {
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
  place: BundlePlace,
  request: Exclude<SwitchRequest, { verb: 'drop' }>,
): Promise<SwitchResult> {
  const { storage } = place;
  switch (request.verb) {
    case 'rollback': {
      const { release } = request;
      const target = release === undefined ? null : await releaseNamed(place, release);
      return rollBack(context, storage, target, request);
    }
    case 'promote':
      return promote(context, storage, await releaseNamed(place, request.release), request);
    case 'resume':
      return resume(context, storage, request);
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
