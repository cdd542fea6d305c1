import { describeBundlePath } from '../bundle-path.ts';
import type { CoreContext } from '../context.ts';
import type { Owner } from '../identity.ts';
import { removeChannel } from './channels.ts';
import { switchOccurrence } from './occurrence.ts';
import { releaseNamed, unknownName, type Place } from './place.ts';
import { switchRefused } from './refusal.ts';
import type { ReleaseId } from './release.ts';
import { readReleases } from './store.ts';
import { promote, resume, rollBack, type SwitchOptions, type SwitchResult } from './switch.ts';

/** What somebody asks for; without a release, a rollback goes to the last good one. */
export type SwitchRequest =
  | { verb: 'rollback'; release?: string }
  | { verb: 'promote'; release: string }
  | { verb: 'resume' }
  | { verb: 'drop'; channel: string };

/** What readers, or those of the channel, had, and have now or, in a dry run, would have. Plain data. */
export interface Switched {
  from: ReleaseId | null;
  to: ReleaseId | null;
}

/**
 * Carries out what was asked for at a bundle path, and notifies of it if readers now have another release;
 * asked again, it changes nothing. Throws `release_not_found`, `channel_not_found`, `release_unusable` if it
 * is refused, and as `changeReleases` does.
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
  const done = await asked(context, place, request, options);
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
  { dryRun, leaseTimes }: SwitchOptions,
): Promise<Switched> {
  const { channels, ledger } = await readReleases(storage);
  const known = ledger.channels.map((channel) => channel.name);
  if (!known.includes(name))
    throw unknownName('channel_not_found', `channel of "${destinationPath}"`, name, known);
  if (!dryRun) await removeChannel(context, storage, name, leaseTimes);
  return { from: channels.get(name) ?? null, to: null };
}

async function asked(
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
