import fc from 'fast-check';
import t from 'tap';
import type { Clock } from '../../src/core/lib/clock.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { howMany } from '../support/sampling.ts';
import { aroundOperations, scheduled } from './interleaved.ts';
import {
  catalogMismatches,
  leftovers,
  newWorld,
  otherOwner,
  type Publication,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
  worldKinds,
} from './world.ts';

/** Two publishers with one destination have the result of a serial order, and nothing is lost. */

const pairs: Record<string, [Publication, Publication]> = {
  'two owners, no path in common': [
    { files: { 'a.txt': 'a', 'both/one': '1' } },
    { files: { 'b.txt': 'b', 'both/two': '2' }, as: otherOwner },
  ],
  'one owner, two versions': [
    { files: { 'a.txt': 'old', 'old.txt': 'o' }, workflow: 'replacement' },
    { files: { 'a.txt': 'new', 'new.txt': 'n' }, workflow: 'replacement' },
  ],
  'two owners that want one path': [
    { files: { 'a.txt': 'ours' } },
    { files: { 'a.txt': 'theirs' }, as: otherOwner },
  ],
};

/**
 * Reasons for a publisher to fail: it waited too long, was overtaken, or the other's output is in its way.
 */
const honestLosses = new Set(['destination_busy', 'lease_lost', 'unmanaged_content']);

/** Two owners with different paths do not block each other. */
function isHonest(code: string, first: Publication, second: Publication): boolean {
  const isShared = Object.keys(first.files).some((path) => Object.hasOwn(second.files, path));
  return honestLosses.has(code) && (isShared || code !== 'unmanaged_content');
}

const runs = howMany(150, 15);

for (const kind of ['memory files', 'memory objects'] as const)
  for (const [name, [first, second]] of Object.entries(pairs))
    t.test(`${kind}, ${name}: every interleaving of storage operations equals a serial order`, async (t) => {
      const serial = await Promise.all([oneAfterTheOther(first, second), oneAfterTheOther(second, first)]);
      let interleavings = 0;
      await fc.assert(
        fc.asyncProperty(fc.scheduler(), async (scheduler) => {
          interleavings += 1;
          const world = newWorld(kind, t);
          const results = scheduler.waitFor(
            Promise.all([
              publishTo(scheduled(await world.open(), scheduler), first),
              publishTo(scheduled(await world.open(), scheduler), second),
            ]),
          );
          const storage = await world.open();
          for (const { error } of await results)
            if (error !== null && !isHonest(error.code, first, second))
              throw new Error(`${error.code}: ${error.message}`);
          expectNothing(await catalogMismatches(storage));
          // The loser retries, and then the result is the same as one after the other.
          const wins = (await results).map(({ error }) => error === null);
          if (wins[0] !== true) await publishTo(await world.open(), first);
          if (wins[1] !== true) await publishTo(await world.open(), second);
          const files = await snapshot(storage);
          expectNothing(leftovers(files));
          expectNothing(await catalogMismatches(storage));
          const found = describe(files);
          if (!serial.includes(found)) throw new Error(`neither order gives\n${found}`);
        }),
        { numRuns: runs },
      );
      t.ok(interleavings >= runs, `${interleavings} interleavings`);
    });

for (const kind of worldKinds)
  t.test(
    `${kind}: a holder suspended past its lease, at any operation, does not commit when it resumes`,
    async (t) => {
      const slow: Publication = { files: { 'a.txt': 'slow', 'slow.txt': 's' }, workflow: 'replacement' };
      const quick: Publication = { files: { 'a.txt': 'quick', 'quick.txt': 'q' }, workflow: 'replacement' };
      const before: Publication = {
        files: { 'a.txt': 'before', 'before.txt': 'b' },
        workflow: 'replacement',
      };
      let overtaken = 0;
      let pauses = 0;
      for (let at = 1; ; at += 1) {
        const world = newWorld(kind, t);
        await put(await world.open(), 'sibling', 'untouched');
        await publishTo(await world.open(), before);
        const sleeper = sleepingAfter(await world.open(), at);
        const slowResult = publishTo(sleeper.storage, slow, sleeper.clock);
        const asleep = await Promise.race([sleeper.asleep.then(() => true), slowResult.then(() => false)]);
        if (!asleep) break;
        pauses += 1;
        const quickResult = await publishTo(await world.open(), quick);
        sleeper.wake();
        const { action, error } = await slowResult;
        const storage = await world.open();
        t.same(await catalogMismatches(storage), [], `stopped after operation ${at}: the state is accurate`);
        const wasLast = (await snapshot(storage)).get('bundle/a.txt');
        if (error?.code === 'lease_lost') overtaken += 1;
        if (error !== null && wasLast !== 'quick')
          t.fail(`stopped after operation ${at}: ${action} failed and ${String(wasLast)} is published`);
        t.equal(quickResult.error, null, `stopped after operation ${at}: the other one published`);
        t.equal((await publishTo(await world.open(), quick)).error, null);
        const files = await snapshot(storage);
        t.equal(files.get('bundle/a.txt'), 'quick');
        t.equal(files.get('sibling'), 'untouched');
        t.same(leftovers(files), [], `stopped after operation ${at}: no other files are left`);
        const state = await stateOf(storage);
        t.ok(state.kind === 'valid' && state.catalog.pending === null);
      }
      t.ok(pauses > 8, `suspended at ${pauses} places`);
      t.ok(overtaken > 3, `${overtaken} times overtaken`);
    },
  );

/**
 * After the operation `at`, the process is suspended. When it resumes, two hundred seconds have passed for
 * it.
 */
function sleepingAfter(
  storage: Storage,
  at: number,
): { storage: Storage; clock: Clock; asleep: Promise<void>; wake: () => void } {
  const clock = testClock();
  const asleep = signal();
  const woken = signal();
  let operations = 0;
  const after = async (): Promise<void> => {
    operations += 1;
    if (operations !== at) return;
    asleep.give();
    await woken.given;
    await clock.sleep(200_000);
  };
  return {
    storage: aroundOperations(storage, async () => undefined, after),
    clock,
    asleep: asleep.given,
    wake: woken.give,
  };
}

function signal(): { given: Promise<void>; give: () => void } {
  let give = (): void => undefined;
  const given = new Promise<void>((resolve) => (give = resolve));
  return { given, give };
}

async function oneAfterTheOther(...publications: Publication[]): Promise<string> {
  const world = newWorld('memory files', t);
  const results: ActionResult[] = [];
  for (const publication of publications) results.push(await publishTo(await world.open(), publication));
  for (const { error } of results)
    if (error !== null && !honestLosses.has(error.code)) throw new Error(error.message);
  return describe(await snapshot(await world.open()));
}

/** The published files and their owners, without data that differs between any two runs. */
function describe(files: ReadonlyMap<string, string>): string {
  return [...files]
    .map(([name, text]) => {
      if (!name.endsWith('.publisher.json')) return `${name}: ${text}`;
      const { outputs } = JSON.parse(text) as { outputs: { path: string; owner: { pipeline_id: string } }[] };
      return outputs.map(({ path, owner: { pipeline_id: id } }) => `${path} of ${id}`).join(', ');
    })
    .sort()
    .join('\n');
}

function expectNothing(found: readonly string[]): void {
  if (found.length > 0) throw new Error(found.join('; '));
}
