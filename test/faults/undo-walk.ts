import type { Test } from 'tap';
import type { Case } from '../support/sampling.ts';
import { stepsOf, withoutIds } from './steps.ts';
import { commitIn, differences, newLog, type Prepared, recorded, shortfalls } from './walk.ts';
import { type Fault, withFaults } from './with-faults.ts';
import { lookAt } from './world.ts';

/**
 * A publisher that fails cleanly, so that it undoes its changes, and is killed at each operation of the
 * undo. It fails at its last change of a file, and at the commit, when there is most to undo. The next run
 * repairs everything without force.
 */

interface Kill {
  /** The operation that is rejected, counted from 1. */
  refusedAt: number;
  /** A later one, at which the process is killed. */
  killedAt: number;
}

/** The kills, or none if the action cannot be undone as a whole. */
export async function undoCases(
  t: Test,
  prepared: Prepared,
  stratum: (step: string) => string,
): Promise<Case[]> {
  const { name, operations, scenario } = prepared;
  if (recorded.has(scenario.action)) return [];
  const commitAt = commitIn(operations);
  const lastChange = operations.slice(0, commitAt - 1).findLastIndex(isChange) + 1;
  // The commit of an unpublication first removes files that could be restored.
  const refused = scenario.action.startsWith('unpublish') ? [lastChange] : [lastChange, commitAt];
  const cases: Case[] = [];
  for (const refusedAt of refused) {
    const all = await operationsOf(t, prepared, refusedAt);
    const refusedName = withoutIds(operations[refusedAt - 1] ?? '');
    const steps = stepsOf(all);
    for (const [index, operation] of all.entries()) {
      if (index < refusedAt) continue;
      const kill = { refusedAt, killedAt: index + 1 };
      cases.push({
        name: `${name}, refused at ${refusedAt} ${refusedName}, killed at ${kill.killedAt} ${withoutIds(operation)}`,
        stratum: stratum(steps[index] as string),
        run: async () => wrongAfter(prepared, kill),
      });
    }
  }
  return cases;
}

function isChange(operation: string): boolean {
  const [name = '', ...keys] = operation.split(' ');
  return ['write', 'rename', 'remove'].includes(name) && keys.at(-1)?.includes('.publisher') === false;
}

const refusal = (at: number): Fault => ({ kind: 'before', at, code: 'storage_permanent' });

/** Every operation of an attempt that is rejected at one of them, including the undo. */
async function operationsOf(
  t: Test,
  { fork, before, scenario }: Prepared,
  refusedAt: number,
): Promise<string[]> {
  const world = await fork();
  const log = newLog();
  const refusing = withFaults(await world.open(), refusal(refusedAt), log);
  const succeeded = await scenario.work(refusing).catch(() => false);
  t.notOk(succeeded, 'a rejected operation fails the attempt');
  t.same(differences(before, await world.files(), { withState: true }), [], 'which is undone');
  return log.operations;
}

async function wrongAfter(
  { fork, before, scenario }: Prepared,
  { refusedAt, killedAt }: Kill,
): Promise<string[]> {
  const world = await fork();
  const log = newLog();
  const refusing = withFaults(await world.open(), refusal(refusedAt), newLog());
  const dying = withFaults(refusing, { ...refusal(killedAt), kind: 'crash' }, log);
  await scenario.work(dying).catch(() => false);
  const wrong = log.fired ? [] : ['it was never killed'];

  const { files: after, state, catalogMismatches } = await lookAt(world);
  if (scenario.startsUntrue !== true)
    wrong.push(...catalogMismatches.map((what) => `after the kill ${what}`));
  // Without the intent, the information for an undo is lost.
  if (state.kind !== 'valid' || state.catalog.pending === null)
    wrong.push(...differences(before, after, { withState: false }));
  for (const [name, text] of Object.entries(scenario.untouched))
    if (after.get(name) !== text) wrong.push(`after the kill "${name}" was touched`);
  if (!(await scenario.rerun(await world.open()).catch(() => false))) wrong.push('the rerun failed');
  wrong.push(...(await shortfalls(world, scenario)));
  await world.drop?.();
  return wrong;
}
