import { describeBundlePath } from '../../lib/paths.ts';
import type { PublishedBundle } from '../../catalog/catalog.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareInstants } from '../../lib/instant.ts';
import { changesDestination, type BundleIdentity, type Plan } from '../plan.ts';

/**
 * Refuses a plan that would replace a bundle with an older one. Equal creation times are allowed. Throws
 * `stale_bundle`, which names both bundles. Pure.
 */
export function refuseStale(
  { action, bundle, destinationPath }: Pick<Plan, 'action' | 'bundle' | 'destinationPath'>,
  published: PublishedBundle | null,
): void {
  if (!changesDestination(action) || published === null) return;
  if (compareInstants(bundle.created, published.created) >= 0) return;
  const where = describeBundlePath(destinationPath);
  throw new WaybillError(
    'stale_bundle',
    `${where}: ${named(bundle)}, is older than ${named(published)}, which is published there`,
    {
      hint: 'publish a bundle with a newer "created"; to go back on purpose, set `stale: publish` on the destination',
    },
  );
}

/**
 * Whether the owner has published a newer bundle, or a different one with the same creation time. The caller
 * must then select from the source again. Pure.
 */
export function isOvertaken(
  { created, source }: BundleIdentity,
  published: PublishedBundle | null,
): published is PublishedBundle {
  if (published === null) return false;
  const order = compareInstants(published.created, created);
  return order > 0 || (order === 0 && published.source.path !== source.path);
}

function named({ source, created }: BundleIdentity): string {
  return `"${source.path}", created ${created}`;
}
