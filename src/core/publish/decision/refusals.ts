import {
  type CatalogState,
  maxWholeCatalogBytes,
  type OutputRecord,
  type PublishedBundle,
  publishedBy,
} from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/catalog-store.ts';
import { bytesOfRecord, catalogTooLarge, maxCatalogBytesFor } from '../../catalog/serialise.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareInstants } from '../../lib/instant.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import { type Amount, formatAmount, resolveShare } from '../../lib/settings/sizes-and-durations.ts';
import { sameOwner } from '../../storage/identity.ts';
import { type BundleIdentity, changesDestination, type Plan, type PlannedOutput } from '../plan.ts';

/**
 * Refuses a plan that the destination's settings do not allow. `state` is what is currently published. Throws
 * `catalog_too_large`, `signature_replayed`, `stale_bundle` or `too_many_removals`.
 */
export function enforceLimits(
  plan: Plan,
  { state }: Pick<StoredState, 'state'>,
  { stale, limits: { maxRemoved } }: Pick<DestinationConfig, 'stale' | 'limits'>,
  { force, allowRemovals }: { force: boolean; allowRemovals: boolean },
): void {
  refuseLargeCatalog(plan);
  refuseOlder(plan, publishedBy(state, plan.owner), stale === 'refuse' && !force);
  // Counting the owner's outputs takes time, so only do it if there is a limit.
  if (!allowRemovals && maxRemoved !== null && plan.removes.length > 0)
    refuseRemovals(maxRemoved, plannedRemovals(plan, state));
}

/*
 * Limits how many outputs a run may remove (`limits.max_removed`).
 */

/** How many outputs one owner has published (`total`), and how many of them a plan removes (`removed`). */
interface Removals {
  removed: number;
  total: number;
  /** The name of the place in the message, such as `"session-42"` or `the destination`. */
  where: string;
}

/**
 * Counts how many of the owner's outputs the plan removes. Removals left over from the owner's interrupted
 * attempt do not count, because they passed the check back then. Neither do files that are only deleted
 * because of force.
 */
export function plannedRemovals(
  plan: Pick<Plan, 'owner' | 'destinationPath' | 'removes' | 'clears'>,
  state: CatalogState,
): Removals {
  const { owner, destinationPath } = plan;
  const own = ownPaths(state, plan);
  const pending = state.kind === 'valid' ? state.catalog.pending : null;
  const decided = new Set<string>(
    pending !== null && pending.action !== 'prune' && sameOwner(pending.owner, owner) ? pending.removes : [],
  );
  const removed = plan.clears ? [] : plan.removes.filter((path) => own.has(path) && !decided.has(path));
  const where = describeBundlePath(destinationPath);
  return { removed: removed.length, total: own.size, where };
}

function ownPaths(state: CatalogState, { owner }: Pick<Plan, 'owner'>): Set<string> {
  if (state.kind === 'valid')
    return new Set(
      state.catalog.outputs.filter((record) => sameOwner(record.owner, owner)).map(({ path }) => path),
    );
  if (state.kind !== 'legacy') return new Set();
  return new Set(
    state.records.filter(({ v3 }) => v3 !== null && sameOwner(v3.owner, owner)).map(({ path }) => path),
  );
}

/** Throws a `too_many_removals` error if more outputs would be removed than `limits.max_removed` allows. */
export function refuseRemovals(limit: Amount | null, { removed, total, where }: Removals): void {
  if (limit === null) return;
  const maxRemovals = resolveShare(limit, total);
  if (removed <= maxRemovals) return;
  const allowed = 'count' in limit ? `${maxRemovals}` : `${formatAmount(limit)}, which is ${maxRemovals}`;
  throw new WaybillError(
    'too_many_removals',
    `${where}: ${removed} of ${total} published outputs would be removed, and limits.max_removed allows ${allowed}; nothing was changed`,
    {
      hint: 'list the removals with --dry-run --allow-removals; if they are intended, run once with --allow-removals (for uploads: raise limits.max_removed)',
    },
  );
}

/**
 * Refuses to replace a bundle with an older one. An equal creation time is fine.
 *
 * For a signed bundle, this throws `signature_replayed`, even with force: otherwise an attacker could publish
 * an old bundle again along with its valid signature. The signature covers `created`, which the catalog
 * records. For any other bundle, it throws `stale_bundle` if the destination refuses older bundles.
 */
export function refuseOlder(
  { action, bundle, destinationPath }: Pick<Plan, 'action' | 'bundle' | 'destinationPath'>,
  published: PublishedBundle | null,
  isStaleRefused: boolean,
): void {
  if (!changesDestination(action) || published === null) return;
  if (compareInstants(bundle.created, published.created) >= 0) return;
  const { signedBy } = bundle;
  const subject = `${describeBundlePath(destinationPath)}: ${named(bundle)}`;
  const fact = `is older than ${named(published)}, which is published there`;
  if (signedBy !== undefined)
    throw new WaybillError('signature_replayed', `${subject} and signed by key ${signedBy}, ${fact}`, {
      hint: 'to publish that content again on purpose, make its manifest with a newer "created" and sign it',
    });
  if (!isStaleRefused) return;
  throw new WaybillError('stale_bundle', `${subject}, ${fact}`, {
    hint: 'publish a bundle with a newer "created"; to go back on purpose, set `stale: publish` on the destination',
  });
}

/**
 * Reports whether the owner has already published a newer bundle, or a different one with the same creation
 * time. If so, the caller must look at the source again.
 */
export function isOlderThanPublished(
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

/** More than enough bytes for a record's field names, numbers, times and digests. */
const fixedBytes = 512;
/** JSON needs up to six bytes for a code unit, as in `\u0000`. */
const bytesPerUnit = 6;

/**
 * Refuses a plan whose catalog would be too large to read back. Throws a `catalog_too_large` error before
 * anything is written, in dry runs too.
 */
export function refuseLargeCatalog(plan: Plan): void {
  if (!changesDestination(plan.action)) return;
  const { untouched, writes, kept } = plan;
  const records = [untouched, writes, kept] as const;
  // This upper bound is a hundred times faster to compute than the real size, and good enough for all but the
  // largest catalogs.
  if (sum(records, maxRecordBytes) < maxWholeCatalogBytes) return;
  const updatedAt = new Date(0).toISOString();
  let longest = 0;
  const size = sum(records, (output) => {
    const bytes = bytesOfRecord({ updatedAt, ...output }) + '    ,\n'.length;
    longest = Math.max(longest, bytes);
    return bytes;
  });
  const maxBytes = maxCatalogBytesFor(longest);
  if (size > maxBytes) throw catalogTooLarge(plan.destinationPath, size, maxBytes);
}

type RecordedOutput = Omit<OutputRecord, 'updatedAt'> | PlannedOutput;

function sum(
  lists: readonly (readonly RecordedOutput[])[],
  bytesOf: (one: RecordedOutput) => number,
): number {
  let total = 0;
  for (const list of lists) for (const one of list) total += bytesOf(one);
  return total;
}

function maxRecordBytes({ path, kind, url, owner, source, generated }: RecordedOutput): number {
  const units =
    path.length +
    kind.length +
    (url?.length ?? 0) +
    owner.pipelineId.length +
    owner.destinationId.length +
    source.id.length +
    source.path.length +
    (generated.contentType?.length ?? 0) +
    (generated.cacheControl?.length ?? 0) +
    (generated.generator?.name.length ?? 0);
  return fixedBytes + units * bytesPerUnit;
}
