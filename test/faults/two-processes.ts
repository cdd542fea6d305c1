import type { Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import {
  bundleOf,
  bundlePath,
  catalogMismatches,
  contextWith,
  destinationOf,
  type Files,
  leftovers,
  owner,
  snapshot,
} from './world.ts';

/*
 * Shared by the tests of two real processes on one destination. The other process is slow and receives
 * signals. This one is quick and takes over.
 */

/** No process loses its lease because the machine is busy. */
export const leaseTimes = {
  renewEveryMs: 200,
  abortAfterMs: 3_600_000,
  staleAfterMs: 3_600_000,
  waitMs: 3_600_000,
  pollEveryMs: 20,
};
/** For a contender of a suspended process, which renews nothing however long the contender waits. */
export const overtaking = { ...leaseTimes, staleAfterMs: 1_000 };
export const quick: Files = { 'a.txt': 'quick', 'quick.txt': 'q' };

export async function publishHere(
  storage: Storage,
  times = leaseTimes,
  workflow: 'additive' | 'replacement' = 'replacement',
): Promise<ActionResult> {
  const destination = destinationOf(workflow);
  return publishBundle(
    { ...contextWith(systemClock), leaseTimes: times },
    storage,
    { bundle: bundleOf(quick), owner, destination, destinationPath: bundlePath },
    { dryRun: false, force: false },
  );
}

/** The destination has the fast publisher's bundle, nothing of the slow one, and a correct catalog. */
export async function checkQuick(t: Test, storage: Storage): Promise<void> {
  const files = await snapshot(storage);
  t.equal(files.get(`${bundlePath}/a.txt`), 'quick');
  t.equal(files.get(`${bundlePath}/slow.txt`), undefined);
  t.same(leftovers(files), []);
  t.same(await catalogMismatches(storage), []);
}
