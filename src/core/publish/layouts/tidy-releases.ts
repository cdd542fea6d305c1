import type { LeaseTimes } from '../../catalog/lease/lease.ts';
import type { DestinationConfig, ReleasesConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { pathsWithReleases, placeAt } from '../../releases/place.ts';
import { isRetirementDue, type Retired, retireReleases } from '../../releases/retire.ts';
import { readReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import type { Storage } from '../../storage/storage.ts';
import { removeRelease } from '../unpublish/remove-release.ts';

/*
 * Removes old releases after publications and on a schedule.
 */

export interface Tidying {
  rule: ReleasesConfig;
  destination: Pick<DestinationConfig, 'fileConcurrency'>;
  /** Set only by tests. */
  leaseTimes?: LeaseTimes | undefined;
}

/**
 * Removes the releases that retention no longer keeps, and finishes interrupted removals. `storage` is rooted
 * at the bundle path. Returns the releases that were removed or, in a dry run, would be. Throws like
 * `retireReleases`.
 */
export async function retireOld(
  context: CoreContext,
  storage: Storage,
  { rule: { keep, lingerMs }, destination, leaseTimes }: Tidying,
  { dryRun }: { dryRun: boolean } = { dryRun: false },
): Promise<Retired> {
  return retireReleases(context, storage, {
    rule: { keep, lingerMs },
    dryRun,
    leaseTimes,
    remove: async (id, isStill) =>
      removeRelease(context, releaseIn(storage, id), {
        isStill,
        concurrency: destination.fileConcurrency,
        leaseTimes,
      }),
  });
}

/** Like `retireOld`, after a commit. A failure does not undo the commit and is only logged. */
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
      'removing old releases failed; the next run removes them',
    );
  }
}

/** The channels and releases removed at one bundle path, or to be removed in a dry run. Plain data. */
export interface TidiedPath extends Retired {
  destinationPath: string;
}

/**
 * Calls `retireOld` for one bundle path or, if `path` is null, for all with releases. Skips those without due
 * removals according to their ledgers. Returns the paths with removals, sorted. Throws like `retireReleases`.
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
