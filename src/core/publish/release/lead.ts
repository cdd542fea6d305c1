import type { CoreContext } from '../../context.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import { setChannel } from '../../releases/channels.ts';
import type { ReleaseId } from '../../releases/release.ts';
import { switchRefused } from '../../releases/refusal.ts';
import { activate, type SwitchRefusal } from '../../releases/switch.ts';
import type { Storage } from '../../storage/storage.ts';
import { describeBundlePath } from '../../bundle-path.ts';
import type { ActionResult } from '../results/result.ts';
import type { ReleasePublication } from './release-publication.ts';
import type { Standing } from './standing.ts';

/**
 * Leads the pointer of a publication to a release that is whole. What came of it: `overtaken` if it has to be
 * decided anew, and `being_removed` if the removal has to be finished first. Throws `release_unusable` if
 * deciding anew is of no use, and as `changeReleases` does.
 */
export async function lead(
  context: CoreContext,
  storage: Storage,
  { channel, destinationPath }: Pick<ReleasePublication, 'channel' | 'destinationPath'>,
  { pointer }: Pick<Standing, 'pointer'>,
  to: ReleaseId,
  leaseTimes: LeaseTimes | undefined,
): Promise<'led' | 'overtaken' | 'being_removed'> {
  const refusal = await refusalOf();
  if (refusal === null) return 'led';
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

/** As a publication by which a channel leads to what readers have already. Pure. */
export function asChannelSet(result: ActionResult, channel: string, release: ReleaseId): ActionResult {
  const message = `channel "${channel}" leads to release ${release}, which readers have already`;
  return { ...result, action: 'replace_catalog', reason: { code: 'channel_set', message } };
}
