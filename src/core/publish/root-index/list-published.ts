import type { CatalogState } from '../../catalog/catalog.ts';
import type { CoreContext } from '../../context.ts';
import type { Finding } from '../../finding.ts';
import type { ListedBundle } from '../../generate/root-index/listed-bundle.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import type { Storage } from '../../storage/storage.ts';
import type { ActionResult } from '../results/result.ts';
import { bundleAt, listedBundle } from './listed-state.ts';
import type { RootIndex } from './planned-files.ts';
import { refreshRootIndex } from './root-index.ts';

/** A bundle path that a run has dealt with. */
export interface PublishedPath {
  destinationPath: string;
  action: Pick<ActionResult, 'action' | 'error'>;
  /** That was decided on last; null if it did not come to that. */
  state: CatalogState | null;
}

/**
 * Brings the index of the root up to date with what a run has published, and with what an earlier one has
 * published that did not come to this. What failed stays in it as it was. The warning, if there can be no
 * index. Throws as `refreshRootIndex` does.
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
    // Of what is as it was, the catalog has been read.
    const bundle =
      action.action === 'skip_same' && state !== null
        ? listedBundle(state, destinationPath, listed)
        : await bundleAt(root, destinationPath, listed);
    seen.set(destinationPath, bundle);
  }
  return seen.size === 0 ? null : refreshRootIndex(context, root, index, seen, options);
}
