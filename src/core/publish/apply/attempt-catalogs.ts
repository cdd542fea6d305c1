import {
  type AttemptAction,
  type Catalog,
  type OutputRecord,
  type PublishedBundle,
  bundlesOf,
  withPublished,
} from '../../catalog/catalog.ts';
import { isStoredKey } from '../../catalog/parse-fields.ts';
import { intentOf, type Lease } from '../../catalog/lease/lease.ts';
import { concernedPaths, type PlannedOutput, type Work } from '../plan.ts';

/*
 * The two catalogs that an attempt writes. `base` has the records of the paths outside its plan.
 */

/**
 * The catalog with the intent, which announces every path that the attempt writes or removes. The previous
 * records of these paths, and of kept paths, stay until the commit. Pure.
 */
export function announcedCatalog(
  plan: Work,
  lease: Lease,
  base: readonly OutputRecord[],
  now: Date,
): Catalog {
  const startedAt = now.toISOString();
  const pending = intentOf(lease, {
    owner: plan.owner,
    action: plan.action as AttemptAction,
    startedAt,
    outputs: plan.writes.map((output) => recordOf(output, startedAt)),
    // A key that a state must not contain is unmanaged content. It is unmanaged again if this attempt
    // crashes.
    removes: plan.removes.filter(isStoredKey),
  });
  const concerned = concernedPaths(plan);
  const { state } = lease.found;
  const before =
    state.kind === 'valid' && !plan.clears
      ? state.catalog.outputs.filter(({ path }) => concerned.has(path))
      : [];
  const updatedAt = state.kind === 'valid' ? state.catalog.updatedAt : startedAt;
  const bundles = bundlesIn(lease);
  return {
    generation: generationOf(plan, lease),
    updatedAt,
    bundles,
    outputs: [...base, ...before],
    pending,
  };
}

/** The catalog that commits the attempt. Pure. */
export function committedCatalog(
  plan: Work,
  lease: Lease,
  base: readonly OutputRecord[],
  now: Date,
): Catalog {
  const updatedAt = now.toISOString();
  const published = [...plan.writes, ...plan.kept].map((output) => recordOf(output, updatedAt));
  const outputs = [...base, ...published];
  const before = bundlesIn(lease);
  const bundles =
    plan.bundle === null ? before : withPublished(before, { owner: plan.owner, ...plan.bundle });
  return {
    generation: generationOf(plan, lease) + 1,
    updatedAt,
    bundles: bundlesOf(bundles, outputs),
    outputs,
    pending: null,
  };
}

/** Content published without a catalog of this version counts as the first generation. */
function generationOf({ action }: Work, { found: { state } }: Lease): number {
  if (state.kind === 'valid') return state.catalog.generation;
  return action === 'publish_new' ? 0 : 1;
}

function bundlesIn({ found: { state } }: Lease): PublishedBundle[] {
  return state.kind === 'valid' ? state.catalog.bundles : [];
}

function recordOf(output: PlannedOutput, updatedAt: string): OutputRecord {
  const { path, owner, source, kind, digest, size, generated, url } = output;
  return { path, owner, source, kind, digest, size, updatedAt, generated, url };
}
