import { describeBundlePath } from '../../bundle-path.ts';
import type { Catalog, OutputRecord } from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/store.ts';
import { sameOwner, type Owner } from '../../identity.ts';
import { WaybillError } from '../../errors.ts';
import { compareCodeUnits } from '../../paths.ts';
import { keyOf, type Key } from '../../storage/key.ts';
import type { Work } from '../plan.ts';

/** What unpublishing a bundle path removes. */
export interface Unpublication extends Work {
  action: 'unpublish';
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Of the outputs that go; those that only an interrupted attempt announced are not among them. */
  records: OutputRecord[];
  /** The owners whose outputs stay, and with them the catalog. */
  staying: Owner[];
}

/** The decision that an orphan goes, and the state that says so. */
export interface DecidedOrphan {
  work: Unpublication;
  stored: StoredState;
}

/**
 * Everything that `owner` has published at a bundle path, and what an interrupted attempt of the same owner
 * wrote there or was still to remove. What belongs to others stays; a catalog without any output is nobody's,
 * and goes. Throws `not_owned` if all of it belongs to others. Pure.
 */
export function unpublication(catalog: Catalog, owner: Owner, destinationPath: string): Unpublication {
  const { outputs, pending } = catalog;
  const isOwn = (record: OutputRecord): boolean => sameOwner(record.owner, owner);
  const records = outputs.filter(isOwn);
  const goes = new Set<Key>(
    [...records, ...(pending?.outputs ?? []).filter(isOwn)].map(({ path }) => keyOf(path)),
  );
  const untouched = outputs.filter((record) => !isOwn(record));
  const isOwnAttempt = pending !== null && sameOwner(pending.owner, owner);
  if (isOwnAttempt && pending.action !== 'prune') for (const key of pending.removes) goes.add(key);
  const staying = ownersOf([...untouched, ...(pending?.outputs ?? []).filter((record) => !isOwn(record))]);
  const [other] = pending === null || isOwnAttempt ? staying : [...staying, pending.owner];
  if (goes.size === 0 && other !== undefined) throw notOwned(destinationPath, other);
  return {
    ...{ owner, destinationPath, action: 'unpublish', bundle: null, records, staying, untouched },
    ...{ writes: [], kept: [], removes: [...goes].sort(compareCodeUnits), clears: false },
  };
}

function ownersOf(records: readonly OutputRecord[]): Owner[] {
  const owners: Owner[] = [];
  for (const { owner } of records) if (!owners.some((known) => sameOwner(known, owner))) owners.push(owner);
  return owners;
}

function notOwned(destinationPath: string, { pipelineId, destinationId }: Owner): WaybillError {
  const where = describeBundlePath(destinationPath);
  return new WaybillError(
    'not_owned',
    `${where} was published by ${pipelineId}/${destinationId}; nothing was removed`,
    {
      hint: `unpublish it there: --pipeline ${pipelineId} --destination ${destinationId}`,
    },
  );
}
