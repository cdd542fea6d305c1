import type { CoreContext } from '../context.ts';
import { describeBundlePath } from '../lib/paths.ts';
import type { Occurrence } from '../notify/event.ts';
import type { Owner } from '../storage/identity.ts';
import { removeChannel } from './channels.ts';
import { type Place, releaseNamed, unknownName } from './place.ts';
import type { ReleaseId } from './release.ts';
import { readReleases } from './store.ts';
import { promote, resume, rollBack, type SwitchOptions, switchRefused, type SwitchResult } from './switch.ts';

/*
 * Carries out the requests of the `releases` commands and routes at one bundle path.
 */

/** A request. A rollback without `release` goes to the last good one. */
export type SwitchRequest =
  | { verb: 'rollback'; release?: string }
  | { verb: 'promote'; release: string }
  | { verb: 'resume' }
  | { verb: 'drop'; channel: string };

/** The release before and after the switch, or after it would happen in a dry run. Plain data. */
export interface Switched {
  from: ReleaseId | null;
  to: ReleaseId | null;
}

/**
 * Carries out the request at a bundle path, and notifies if the current release changed. Idempotent. Throws
 * `release_not_found`, `channel_not_found`, `release_unusable` if the switch is refused, and like
 * `changeReleases`.
 */
export async function switchAt(
  context: CoreContext,
  owner: Owner,
  place: Place,
  request: SwitchRequest,
  options: SwitchOptions,
): Promise<Switched> {
  const { destinationPath } = place;
  const where = describeBundlePath(destinationPath);
  if (request.verb === 'drop') return dropChannel(context, place, request.channel, options);
  const done = await performSwitch(context, place, request, options);
  if (done.outcome === 'refused') throw switchRefused(done.refusal, where);
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
  if (!known.includes(name))
    throw unknownName('channel_not_found', `channel of "${destinationPath}"`, name, known);
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

/** The notification of a switch that a client requested. Pure. */
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
