import type { AttemptAction, Catalog, OutputRecord } from '../../catalog/catalog.ts';
import { isStoredKey } from '../../catalog/parse-fields.ts';
import { intentOf, type Lease } from '../../lease/lease.ts';
import type { Key } from '../../storage/key.ts';
import type { Plan, PlannedOutput } from '../plan.ts';

/*
 * The two catalogs that an attempt writes. `base` are the records of the paths that it does not touch.
 */

/**
 * The catalog with the intent: it announces every path that the attempt writes or removes. The old records of
 * those paths stay until the commit, because they say what was there. Pure.
 */
export function announcedCatalog(
  plan: Plan,
  lease: Lease,
  base: readonly OutputRecord[],
  removes: readonly Key[],
  now: Date,
): Catalog {
  const startedAt = now.toISOString();
  const pending = intentOf(lease, {
    owner: plan.owner,
    action: plan.action as AttemptAction,
    startedAt,
    outputs: plan.writes.map((output) => recordOf(output, startedAt)),
    // A key that no state may name is unmanaged content, and is so again if this attempt crashes.
    removes: removes.filter(isStoredKey),
  });
  const touched = new Set<string>([...plan.writes.map(({ path }) => path), ...removes]);
  const { state } = lease.found;
  const before =
    state.kind === 'valid' && !plan.clears
      ? state.catalog.outputs.filter(({ path }) => touched.has(path))
      : [];
  const updatedAt = state.kind === 'valid' ? state.catalog.updatedAt : startedAt;
  return { generation: generationOf(lease), updatedAt, outputs: [...base, ...before], pending };
}

/** The catalog that commits the attempt. Pure. */
export function committedCatalog(
  plan: Plan,
  lease: Lease,
  base: readonly OutputRecord[],
  now: Date,
): Catalog {
  const updatedAt = now.toISOString();
  const written = plan.writes.map((output) => recordOf(output, updatedAt));
  return { generation: generationOf(lease) + 1, updatedAt, outputs: [...base, ...written], pending: null };
}

function generationOf({ found: { state } }: Lease): number {
  return state.kind === 'valid' ? state.catalog.generation : 0;
}

function recordOf(output: PlannedOutput, updatedAt: string): OutputRecord {
  const { path, owner, source, kind, digest, size, generated, url } = output;
  return { path, owner, source, kind, digest, size, updatedAt, generated, url };
}
