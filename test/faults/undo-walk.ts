import type { Test } from 'tap';
import { sampleOf, share } from '../support/sampling.ts';
import { eachPoint } from './each-point.ts';
import {
  commitIn,
  countOperations,
  differences,
  newLog,
  prepared,
  recorded,
  shortfalls,
  type Prepared,
  type Scenario,
  type Walked,
  type WorldFactory,
} from './walk.ts';
import { withFaults, type Fault } from './with-faults.ts';
import { lookAt } from './world.ts';

/**
 * A publisher that fails cleanly, so that it undoes what it did, and is killed at each operation of the
 * undoing. It fails at its last change of a file, and at the commit: then there is most to undo. The rerun
 * makes everything right without force.
 */

interface Kill {
  /** The operation that is refused, counted from 1. */
  refusedAt: number;
  /** A later one, at which the process dies. */
  killedAt: number;
  operation: string;
}

export interface UndoWalk {
  /** At most so many kills, evenly spread, where worlds are dear. */
  atMost: number;
  /** How many of them a run outside CI draws. */
  drawn: number;
  /** Worlds side by side. */
  concurrency: number;
}

/** Walks the kills, or a sample of them outside CI; none if there is nothing to undo as a whole. */
export async function walkUndo(
  t: Test,
  newWorld: WorldFactory,
  scenario: Scenario,
  { atMost, drawn, concurrency }: UndoWalk,
): Promise<Walked> {
  if (recorded.has(scenario.action)) return { points: 0, all: 0 };
  const start = await prepared(t, newWorld, scenario);
  const operations = await countOperations(t, start, scenario);
  const commitAt = commitIn(operations);
  const lastChange = operations.slice(0, commitAt - 1).findLastIndex(isChange) + 1;
  // The commit of an unpublishing begins by removing what could be put back.
  const refused = scenario.action.startsWith('unpublish') ? [lastChange] : [lastChange, commitAt];
  const every: Kill[] = [];
  for (const refusedAt of refused) {
    const undoing = await operationsOf(t, start, scenario, refusedAt);
    for (const [index, operation] of undoing.entries())
      if (index >= refusedAt) every.push({ refusedAt, killedAt: index + 1, operation });
  }
  const stride = Math.max(1, Math.ceil(every.length / atMost));
  const all = every.filter((_, index) => index % stride === 0);
  const kills = sampleOf(all, drawn, `undo ${scenario.action}`);
  const failures: string[] = [];
  await eachPoint(t, kills, concurrency, async (kill) => {
    const where = `refused at ${kill.refusedAt} ${operations[kill.refusedAt - 1] ?? ''}, killed at ${kill.killedAt} ${kill.operation}`;
    failures.push(...(await wrongAfter(start, scenario, kill)).map((what) => `${where}: ${what}`));
  });
  t.same(failures.slice(0, 10), [], `${share(kills.length, all.length)} kills of an undoing walked`);
  return { points: kills.length, all: all.length };
}

function isChange(operation: string): boolean {
  const [name = '', ...keys] = operation.split(' ');
  return ['write', 'rename', 'remove'].includes(name) && keys.at(-1)?.includes('.publisher') === false;
}

const refusal = (at: number): Fault => ({ kind: 'before', at, code: 'storage_permanent' });

/** Every operation of an attempt that is refused one, the undoing included. */
async function operationsOf(
  t: Test,
  { fork, before }: Prepared,
  scenario: Scenario,
  refusedAt: number,
): Promise<string[]> {
  const world = await fork();
  const log = newLog();
  const refusing = withFaults(await world.open(), refusal(refusedAt), log);
  const succeeded = await scenario.work(refusing).catch(() => false);
  t.notOk(succeeded, 'a refused operation fails the attempt');
  t.same(differences(before, await world.files(), { withState: true }), [], 'which is undone');
  return log.operations;
}

async function wrongAfter(
  { fork, before }: Prepared,
  scenario: Scenario,
  { refusedAt, killedAt }: Kill,
): Promise<string[]> {
  const world = await fork();
  const log = newLog();
  const refusing = withFaults(await world.open(), refusal(refusedAt), newLog());
  const dying = withFaults(refusing, { ...refusal(killedAt), kind: 'crash' }, log);
  await scenario.work(dying).catch(() => false);
  const wrong = log.fired ? [] : ['it was never killed'];

  const { files: after, state, untruths } = await lookAt(world);
  if (scenario.startsUntrue !== true) wrong.push(...untruths.map((what) => `after the kill ${what}`));
  // Once the intent is gone, nobody knows what would have to be put back.
  if (state.kind !== 'valid' || state.catalog.pending === null)
    wrong.push(...differences(before, after, { withState: false }));
  for (const [name, text] of Object.entries(scenario.untouched))
    if (after.get(name) !== text) wrong.push(`after the kill "${name}" was touched`);
  if (!(await scenario.rerun(await world.open()).catch(() => false))) wrong.push('the rerun failed');
  wrong.push(...(await shortfalls(world, scenario)));
  return wrong;
}
