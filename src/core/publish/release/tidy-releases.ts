import type { DestinationConfig, ReleasesConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import { pathsWithReleases, placeAt } from '../../releases/place.ts';
import { isRetirementDue } from '../../releases/retention.ts';
import { retireReleases, type Retired } from '../../releases/retire.ts';
import { readReleases } from '../../releases/store.ts';
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
 * is rooted at the bundle path. What was removed, or in a dry run, would be. Throws as `retireReleases` does.
 */
export async function retireOld(
  context: CoreContext,
  storage: Storage,
  { rule: { keep, lingerMs }, destination, leaseTimes }: Tidying,
  { dryRun }: { dryRun: boolean } = { dryRun: false },
): Promise<Retired> {
  return retireReleases(context, storage, {
    ...{ rule: { keep, lingerMs }, dryRun },
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

/** What was removed at one bundle path, or in a dry run, would be. Plain data. */
export interface TidiedPath extends Retired {
  destinationPath: string;
}

/**
 * Does that at one bundle path or, with `path` null, at all that have releases; only what the pointers and
 * ledgers tell to be due is looked at. Those where something was removed, sorted. Throws as `retireReleases`
 * does.
 */
export async function tidyDestination(
  context: CoreContext,
  root: Storage,
  destination: Pick<DestinationConfig, 'mapping' | 'fileConcurrency' | 'releases'>,
  { dryRun, path }: { dryRun: boolean; path: string | null },
): Promise<TidiedPath[]> {
  const { releases: rule, mapping } = destination;
  if (rule === null) return [];
  const only = path ?? (mapping === 'fixed' ? '.' : null);
  const tidied: TidiedPath[] = [];
  for (const destinationPath of only === null ? await pathsWithReleases(root) : [only]) {
    const { storage } = placeAt(root, destinationPath);
    if (!isRetirementDue(await readReleases(storage), rule, context.clock.now())) continue;
    const gone = await retireOld(context, storage, { rule, destination }, { dryRun });
    if (gone.channels.length + gone.releases.length > 0) tidied.push({ destinationPath, ...gone });
  }
  return tidied;
}
