import fc from 'fast-check';
import t from 'tap';
import { hasCode, WaybillError } from '../../src/core/lib/errors.ts';
import type { ReleaseId } from '../../src/core/releases/release.ts';
import { activate, rollBack } from '../../src/core/releases/switch.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { howMany } from '../support/sampling.ts';
import { scheduled } from './interleaved.ts';
import {
  litterBelow,
  lookAtReleases,
  publishAsRelease,
  releaseIdFor,
  retire,
  siteOf,
  writeRelease,
} from './release-world.ts';
import { contextWith, newWorld, testClock } from './world.ts';

/** Two concurrent publishers and a rollback have the result of a serial order. */

const how = { dryRun: false };
const kinds = ['memory files', 'memory objects'] as const;
type Actor = (root: Storage, ids: readonly ReleaseId[]) => Promise<unknown>;

const becomesCurrent =
  (n: number): Actor =>
  async (root, ids) =>
    activate(contextWith(testClock()), siteOf(root), ids[n] as ReleaseId, how);
const goesBack: Actor = async (root, ids) =>
  rollBack(contextWith(testClock()), siteOf(root), ids[0] as ReleaseId, how);
const actors: readonly Actor[] = [becomesCurrent(2), becomesCurrent(3), goesBack];

const publishes =
  (n: number): Actor =>
  async (root) => {
    const { error } = await publishAsRelease(root, n);
    if (error !== null) throw new WaybillError(error.code, error.message);
  };

/** Four releases, of which the second one is current after the first. The publishers create the others. */
async function prepared(root: Storage, who: readonly Actor[] = actors): Promise<ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for (let n = 0; n < 4; n += 1)
    ids.push(n < 2 || who === actors ? await writeRelease(root, n) : await releaseIdFor(n));
  for (const n of [0, 1]) await becomesCurrent(n)(root, ids);
  return ids;
}

async function outcome(root: Storage, ids: readonly ReleaseId[]): Promise<string> {
  const { current, rolledBack, wrong } = await lookAtReleases(root);
  if (wrong.length > 0) throw new Error(wrong.join('; '));
  const left = await litterBelow(root);
  if (left.length > 0) throw new Error(`left: ${left.join(', ')}`);
  const held = rolledBack.map((id) => ids.indexOf(id)).sort();
  return `${ids.indexOf(current as ReleaseId)} is current, held back: ${held.join()}`;
}

/**
 * The number of waits that may fail: time passes only during a wait, and the other publishers may get no
 * turn.
 */
const maxTries = 50;

/** A publisher that timed out or was overtaken retries. */
async function insisting(
  actor: Actor,
  open: () => Promise<Storage>,
  ids: readonly ReleaseId[],
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await actor(await open(), ids);
      return;
    } catch (error) {
      const isInVain = hasCode(error, 'destination_busy') || hasCode(error, 'lease_lost');
      if (!isInVain || tries === maxTries) throw error;
    }
  }
}

/** Whole publications, each of which decides on the current release, and a rollback. */
const publishers: readonly Actor[] = [publishes(2), publishes(3), goesBack];

for (const kind of kinds) {
  const runs = howMany(200, 40);
  for (const [what, who] of Object.entries({ switches: actors, publications: publishers }))
    t.test(`${kind}: ${runs} rounds of ${what} have the result of a serial order`, async (t) => {
      const serial = new Set<string>();
      for (const order of [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
      ]) {
        const root = await newWorld(kind, t).open();
        const ids = await prepared(root, who);
        for (const n of order) await who[n]?.(root, ids);
        serial.add(await outcome(root, ids));
      }
      const seen = new Set<string>();
      await fc.assert(
        fc.asyncProperty(fc.scheduler(), async (scheduler) => {
          const world = newWorld(kind, t);
          const ids = await prepared(await world.open(), who);
          const open = async (): Promise<Storage> => scheduled(await world.open(), scheduler);
          const all = who.map(async (actor) => insisting(actor, open, ids));
          await scheduler.waitFor(Promise.all(all));
          const found = await outcome(await world.open(), ids);
          if (!serial.has(found)) throw new Error(`no order gives: ${found}`);
          seen.add(found);
        }),
        { numRuns: runs },
      );
      t.ok(serial.size > 2, `${serial.size} outcomes of ${who.length} in a row`);
      t.ok(seen.size > 1, `${seen.size} of them occurred`);
    });

  t.test(`${kind}: ${runs} rounds with retention always give readers a complete release`, async (t) => {
    let removed = 0;
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), async (scheduler) => {
        const world = newWorld(kind, t);
        const ids = await prepared(await world.open());
        const open = async (): Promise<Storage> => scheduled(await world.open(), scheduler);
        const sweeper: Actor = async (root) => retire(root, 0);
        const all = [...actors, sweeper].map(async (actor) => insisting(actor, open, ids));
        await scheduler.waitFor(Promise.all(all));
        const root = await world.open();
        await outcome(root, ids);
        const { stored, ledger } = await lookAtReleases(root);
        if (ledger.removing.length > 0) throw new Error('something is still being removed');
        removed += ids.length - stored.length;
      }),
      { numRuns: runs },
    );
    t.ok(removed > 0, `${removed} releases removed`);
  });
}
