import { describeBundlePath } from '../../bundle-path.ts';
import type { CatalogState } from '../../catalog/catalog.ts';
import { WaybillError } from '../../errors.ts';
import { sameOwner } from '../../identity.ts';
import { formatAmount, mostOf, type Amount } from '../../settings/units.ts';
import type { Plan } from '../plan.ts';

/** Published outputs of one owner: how many there are, and how many of them are to go. */
export interface Removals {
  goes: number;
  total: number;
  /** The place, for the message: `"session-42"`, `the destination`. */
  where: string;
}

/**
 * What a plan removes of the outputs that its owner has published at the bundle path. What an interrupted
 * attempt of the same owner was still to remove is not counted: that was allowed, and may be gone. Neither is
 * anything that force clears, which was asked for. Pure.
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

/** Throws `too_many_removals` if more is to go than `limits.max_removed` allows. Pure. */
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
