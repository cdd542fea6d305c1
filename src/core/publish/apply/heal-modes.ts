import { stateKey } from '../../catalog/catalog-store.ts';
import type { CoreContext } from '../../context.ts';
import { type Finding, finding } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { type Key, keyOf, listedKey } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

/**
 * Restores the configured file modes on published files, on their directories below the bundle path, and on
 * the catalog. It never changes the contents of the files or the catalog, and the result still counts as
 * unchanged. Returns a warning with the number of modes changed, or null if they were all correct. Never
 * throws; failures to change a mode are logged.
 *
 * @param stateBytes The size of the catalog; undefined to skip it.
 */
export async function healModes(
  { log }: Pick<CoreContext, 'log'>,
  storage: Storage,
  { planned, stateBytes }: { planned: readonly PlannedOutput[]; stateBytes?: number | undefined },
  { dryRun }: { dryRun: boolean },
): Promise<Finding | null> {
  const { fixModes } = storage;
  if (fixModes === undefined) return null;
  const files = new Map<Key, number>(planned.map(({ path, size }) => [keyOf(path), size]));
  if (stateBytes !== undefined) files.set(stateKey, stateBytes);
  const directories = new Set<Key>();
  for (const { path } of planned) for (const above of ancestorsOf(path)) directories.add(listedKey(above));
  try {
    const { fixed, refused } = await fixModes({ files, directories: [...directories] }, { dryRun });
    if (refused > 0)
      log.info({ storage: storage.label, refused }, 'published files have another mode, which stays');
    return fixed === 0 ? null : finding('warning', 'modes_fixed', described(fixed, dryRun));
  } catch (error) {
    log.warn({ storage: storage.label, err: error }, 'the modes of published files were not checked');
    return null;
  }
}

function described(count: number, dryRun: boolean): string {
  const what = count === 1 ? '1 published file or directory' : `${count} published files or directories`;
  const had = count === 1 ? 'has' : 'have';
  return dryRun
    ? `${what} ${had} another mode than file_mode or directory_mode; a run changes it`
    : `${what} had another mode than file_mode or directory_mode; it was changed`;
}
