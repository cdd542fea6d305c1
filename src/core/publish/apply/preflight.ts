import { stagingRoot } from '../../lease/staging.ts';
import { ancestorsOf } from '../../paths.ts';
import { keyOf } from '../../storage/key.ts';
import type { Change, Storage } from '../../storage/storage.ts';
import type { Work } from '../plan.ts';

/**
 * Throws what the execution of a plan would end with, as far as that can be seen without writing: a directory
 * that cannot be made or written to, another file system, a name that is too long, too little room. `storage`
 * is rooted at the bundle path, `stateBytes` the size of the state that was found. Without the lease the room
 * is not looked at while something is staged there: what a dead attempt left is swept before the next begins.
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

/** What is in the way and goes with the plan is no obstacle. */
function changeOf({ writes, removes }: Pick<Work, 'writes' | 'removes'>): Omit<Change, 'bytes'> {
  const goes = new Set<string>(removes);
  const free = writes.filter(({ path }) => ![...ancestorsOf(path)].some((ancestor) => goes.has(ancestor)));
  return { writes: free.map(({ path }) => keyOf(path)), removes, from: '' };
}

async function holdsAnything(storage: Storage): Promise<boolean> {
  if (storage.facts.rename === 'none') return false;
  for await (const _ of storage.list(stagingRoot, { recursive: false })) return true;
  return false;
}
