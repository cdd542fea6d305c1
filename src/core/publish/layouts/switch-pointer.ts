import type { CoreContext } from '../../context.ts';
import type { LeaseTimes } from '../../catalog/lease/lease.ts';
import { setChannel } from '../../releases/channels.ts';
import type { ReleaseId } from '../../releases/release.ts';
import { switchRefused, activate, type SwitchRefusal } from '../../releases/switch.ts';
import type { Storage } from '../../storage/storage.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import type { ActionResult } from '../results/result.ts';
import type { ReleasePublication } from './release-publication.ts';
import type { Snapshot } from './plan-release.ts';

/**
 * Points the current pointer, or the channel's, at a complete release. Returns `overtaken` if the publication
 * must be decided again, and `being_removed` if the removal must be finished first. Throws `release_unusable`
 * if deciding again would not help, and like `changeReleases`.
 */
export async function switchPointer(
  context: CoreContext,
  storage: Storage,
  { channel, destinationPath }: Pick<ReleasePublication, 'channel' | 'destinationPath'>,
  { pointer }: Pick<Snapshot, 'pointer'>,
  to: ReleaseId,
  leaseTimes: LeaseTimes | undefined,
): Promise<'switched' | 'overtaken' | 'being_removed'> {
  const refusal = await refusalOf();
  if (refusal === null) return 'switched';
  if (refusal.why === 'being_removed') return refusal.why;
  if (refusal.why === 'name_taken') throw switchRefused(refusal, describeBundlePath(destinationPath));
  return 'overtaken';

  async function refusalOf(): Promise<SwitchRefusal | null> {
    if (channel !== null) return setChannel(context, storage, { ...channel, to, from: pointer }, leaseTimes);
    const times = leaseTimes === undefined ? {} : { leaseTimes };
    const done = await activate(context, storage, to, { dryRun: false, from: pointer, ...times });
    return done.outcome === 'refused' ? done.refusal : null;
  }
}

/** Reports a publication that only points a channel at the current release. Pure. */
export function asChannelSet(result: ActionResult, channel: string, release: ReleaseId): ActionResult {
  const message = `channel "${channel}" leads to release ${release}, which is already current`;
  return { ...result, action: 'replace_catalog', reason: { code: 'channel_set', message } };
}
