import type { CatalogState } from '../../catalog/catalog.ts';
import type { CoreContext } from '../../context.ts';
import type { Finding } from '../../lib/errors.ts';
import type { ListedBundle } from '../../outputs/root-index/listed-bundle.ts';
import type { LeaseTimes } from '../../catalog/lease/lease.ts';
import type { Storage } from '../../storage/storage.ts';
import type { ActionResult } from '../results/result.ts';
import { bundleAt, listedBundle } from './listed-state.ts';
import type { RootIndex } from './planned-files.ts';
import { refreshRootIndex } from './root-index.ts';

/** The outcome of a run at one bundle path. */
export interface PublishedPath {
  destinationPath: string;
  action: Pick<ActionResult, 'action' | 'error'>;
  /** The state of the last decision; null if there was none. */
  state: CatalogState | null;
}

/**
 * Updates the root index after a run, including bundles that an earlier run published but did not list.
 * Failed bundles keep their entry. Returns a warning if there cannot be an index. Throws like
 * `refreshRootIndex`.
 */
export async function listPublished(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  published: readonly PublishedPath[],
  options: { leaseTimes?: LeaseTimes | undefined },
): Promise<Finding | null> {
  const { owner, destination } = index;
  const listed = { owner, releases: destination.releases };
  const seen = new Map<string, ListedBundle | null>();
  for (const { destinationPath, action, state } of published) {
    if (action.error !== null || action.action.startsWith('fail_')) continue;
    // The catalog of an unchanged bundle has already been read.
    const bundle =
      action.action === 'skip_same' && state !== null
        ? listedBundle(state, destinationPath, listed)
        : await bundleAt(root, destinationPath, listed);
    seen.set(destinationPath, bundle);
  }
  return seen.size === 0 ? null : refreshRootIndex(context, root, index, seen, options);
}
