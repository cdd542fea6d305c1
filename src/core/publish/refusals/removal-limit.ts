import { describeBundlePath } from '../../lib/paths.ts';
import type { CatalogState } from '../../catalog/catalog.ts';
import { WaybillError } from '../../lib/errors.ts';
import { sameOwner } from '../../storage/identity.ts';
import { formatAmount, mostOf, type Amount } from '../../lib/settings/units.ts';
import type { Plan } from '../plan.ts';

/*
 * Enforces `limits.max_removed`.
 */

/**
 * The number of published outputs of one owner (`total`), and how many of them are to be removed (`goes`).
 */
export interface Removals {
  goes: number;
  total: number;
  /** The place, for the message: `"session-42"`, `the destination`. */
  where: string;
}

/**
 * Counts the plan's removals among the outputs of its owner. Removals of an interrupted attempt of the same
 * owner do not count, because they were already allowed. Neither do files that force clears. Pure.
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
  const goes = plan.clears ? [] : plan.removes.filter((path) => own.has(path) && !decided.has(path));
  const where = describeBundlePath(destinationPath);
  return { goes: goes.length, total: own.size, where };
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

/** Throws `too_many_removals` if there are more removals than `limits.max_removed` allows. Pure. */
export function refuseRemovals(limit: Amount | null, { goes, total, where }: Removals): void {
  if (limit === null) return;
  const most = mostOf(limit, total);
  if (goes <= most) return;
  const allowed = 'count' in limit ? `${most}` : `${formatAmount(limit)}, which is ${most}`;
  throw new WaybillError(
    'too_many_removals',
    `${where}: ${goes} of ${total} published outputs would be removed, and limits.max_removed allows ${allowed}; nothing was changed`,
    {
      hint: 'look with --dry-run --allow-removals at what would go; if it is meant to, run once with --allow-removals (for uploads: raise limits.max_removed)',
    },
  );
}
