import type { CatalogState } from '../../catalog/catalog.ts';
import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import type { Finding } from '../../lib/errors.ts';
import type { ListedBundle } from '../../outputs/json-feed.ts';
import type { Storage } from '../../storage/storage.ts';
import type { ActionResult } from '../results/result.ts';
import type { UnpublishReport, UnpublishRequest } from '../unpublish/unpublication.ts';
import { unpublish } from '../unpublish/unpublish.ts';
import { bundleAt, listedBundle, type RootIndex } from './root-files.ts';
import { refreshPaths, refreshRootIndex, removeFromIndex } from './update-root-index.ts';

/** How a run went at one bundle path. */
export interface PathOutcome {
  destinationPath: string;
  action: Pick<ActionResult, 'action' | 'error'>;
  /** The state on which the last decision was based; null if there was no decision. */
  state: CatalogState | null;
}

/**
 * Updates the root index after a run. Bundles that an earlier run published but failed to list are added,
 * too. If publishing a bundle failed, its entry stays as it is. Returns a warning if the index cannot be
 * created. Throws the same errors as `refreshRootIndex`.
 */
export async function listPublished(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  published: readonly PathOutcome[],
): Promise<Finding | null> {
  const { owner, destination } = index;
  const listed = { owner, releases: destination.releases };
  const seen = new Map<string, ListedBundle | null>();
  for (const { destinationPath, action, state } of published) {
    if (action.error !== null || action.action.startsWith('fail_')) continue;
    // If the bundle was unchanged, its catalog has been read before.
    const bundle =
      action.action === 'skip_same' && state !== null
        ? listedBundle(state, destinationPath, listed)
        : await bundleAt(root, destinationPath, listed);
    seen.set(destinationPath, bundle);
  }
  return seen.size === 0 ? null : refreshRootIndex(context, root, index, seen);
}

/**
 * Unpublishes a bundle path at a destination that may have a root index. The bundle path is taken out of the
 * index first, so that the index never links to files that are gone. If the bundle is still there afterwards,
 * because unpublishing failed or because the other layout is still published, it is put back.
 */
export async function unpublishListed(
  context: CoreContext,
  root: Storage,
  destination: DestinationConfig,
  request: UnpublishRequest,
  warn: (warning: Finding) => void = () => undefined,
): Promise<UnpublishReport> {
  const { dryRun, destinationPath, owner } = request;
  // With an index, the bundle path `.` is the index itself.
  if (!destination.rootIndex || dryRun || destinationPath === '.') return unpublish(context, root, request);
  const index = { owner, destination };
  // Make sure that unpublishing is not going to be refused before changing the index. Bundles that are
  // already gone are dropped from it further down.
  const isRefused = await unpublish({ ...context, notify: () => undefined }, root, {
    ...request,
    dryRun: true,
  }).then(
    () => false,
    () => true,
  );
  const warning = isRefused ? null : await removeFromIndex(context, root, index, destinationPath);
  if (warning !== null) warn(warning);
  const refresh = async (): Promise<void> => {
    if (warning === null) await refreshPaths(context, root, index, [destinationPath]);
  };
  const report = await unpublish(context, root, request).catch(async (error: unknown) => {
    await refresh().catch((failure: unknown) =>
      context.log.warn({ err: failure, destinationPath }, 'the root index may lack this bundle'),
    );
    throw error;
  });
  await refresh();
  return report;
}
