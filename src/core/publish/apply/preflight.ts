import { stagingRoot } from '../../catalog/lease/staging.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { keyOf } from '../../storage/key.ts';
import type { Change, Storage } from '../../storage/storage.ts';
import type { Work } from '../plan.ts';

/**
 * Throws the error that applying a plan would end with, as far as it can be detected without writing: a
 * directory that cannot be created or written to, another file system, a name that is too long, too little
 * space. `storage` is rooted at the bundle path. `stateBytes` is the size of the current state. Without the
 * lease, free space is not checked while there are staged files, because those of a dead attempt will be
 * swept.
 */
export async function refuseObstructed(
  storage: Storage,
  plan: Pick<Work, 'writes' | 'removes'>,
  { stateBytes, isUnderLease }: { stateBytes: number; isUnderLease: boolean },
): Promise<void> {
  const bytes = plan.writes.reduce((sum, { size }) => sum + size, stateBytes);
  const isRoomKnown = isUnderLease || !(await holdsAnything(storage));
  const obstacle = await storage.obstacleTo({ ...changeOf(plan), bytes: isRoomKnown ? bytes : null });
  if (obstacle !== null) throw obstacle;
}

/** Leaves out writes that are blocked only by files that the plan removes. */
function changeOf({ writes, removes }: Pick<Work, 'writes' | 'removes'>): Omit<Change, 'bytes'> {
  const removed = new Set<string>(removes);
  const free = writes.filter(({ path }) => ![...ancestorsOf(path)].some((ancestor) => removed.has(ancestor)));
  return { writes: free.map(({ path }) => keyOf(path)), removes, from: '' };
}

async function holdsAnything(storage: Storage): Promise<boolean> {
  if (storage.facts.rename === 'none') return false;
  for await (const _ of storage.list(stagingRoot, { recursive: false })) return true;
  return false;
}
