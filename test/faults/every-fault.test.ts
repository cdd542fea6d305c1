import t from 'tap';
import { type Case, walkCases } from '../support/sampling.ts';
import { scenarios } from './scenarios.ts';
import { hasSteps, stepsOfFiles, stepsOfObjects } from './steps.ts';
import { undoCases } from './undo-walk.ts';
import { faultCases, prepare } from './walk.ts';
import { newWorld, worldKinds } from './world.ts';

/** Every fault at every storage operation of every action, in memory and in a local directory. */
const cases: Case[] = [];
for (const kind of worldKinds)
  for (const scenario of scenarios) {
    if (kind.startsWith('memory objects') && scenario.needsDirectories === true) continue;
    t.test(`${kind}: ${scenario.action}, without faults`, async (test) => {
      const prepared = await prepare(test, newWorld(kind, t), kind, scenario);
      // Decisions above the storage are the same on a disk, so one kind of failure is enough there.
      const everyCode = kind !== 'local';
      // The other worlds differ from these two in single steps, for every action.
      const isMain = kind === 'memory files' || kind === 'memory objects';
      const group = isMain ? prepared.name : kind;
      const isByFault = !isMain || scenario.faultsDiffer === true;
      const stratum = (step: string, fault: string): string =>
        `${group}: ${step}${isByFault ? `, ${fault}` : ''}`;
      cases.push(...faultCases(prepared, { everyCode, stratum }));
      cases.push(...(await undoCases(test, prepared, (step) => `${group}: ${step}, undoing`)));
    });
  }

t.test('after every fault, the next run repairs everything', async (t) => {
  const strata = await walkCases(t, cases, { what: 'fault points (memory and local)' });
  hasSteps(t, strata, 'memory files: replace_catalog', stepsOfFiles);
  hasSteps(t, strata, 'memory objects: replace_catalog', stepsOfObjects);
});
