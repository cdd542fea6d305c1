import type { DestinationConfig, ReleasesConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import { retireReleases } from '../../releases/retire.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import type { Storage } from '../../storage/storage.ts';
import { removeRelease } from '../unpublish/remove-release.ts';

export interface Tidying {
  rule: ReleasesConfig;
  destination: Pick<DestinationConfig, 'fileConcurrency'>;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes | undefined;
}

/**
 * Removes the releases that are beyond what is kept, and finishes removals that a kill interrupted. `storage`
 * is rooted at the bundle path. Throws as `retireReleases` does.
 */
export async function retireOld(
  context: CoreContext,
  storage: Storage,
  { rule: { keep, lingerMs }, destination, leaseTimes }: Tidying,
): Promise<void> {
  await retireReleases(context, storage, {
    ...{ rule: { keep, lingerMs }, dryRun: false },
    ...(leaseTimes === undefined ? {} : { leaseTimes }),
    remove: async (id, isStill) =>
      removeRelease(context, releaseIn(storage, id), {
        ...{ isStill, concurrency: destination.fileConcurrency, leaseTimes },
      }),
  });
}

/** Once a publication has committed: what fails here does not undo that, and is left to the next run. */
export async function retireAfterwards(
  context: CoreContext,
  storage: Storage,
  tidying: Tidying,
): Promise<void> {
  try {
    await retireOld(context, storage, tidying);
  } catch (error) {
    context.log.warn(
      { storage: storage.label, err: error },
      'old releases could not be removed; the next run removes them',
    );
  }
}
