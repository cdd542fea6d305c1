import t from 'tap';
import { walkCases, type Case } from '../support/sampling.ts';
import { frozenCases, frozenScenarios } from './frozen.ts';
import { hasSteps, stepsOfFiles, stepsOfObjects } from './steps.ts';
import { newWorld, worldKinds } from './world.ts';

/** A publisher that is stopped past its lease, in memory and in a local directory. */
const cases: Case[] = [];
for (const where of worldKinds)
  for (const scenario of frozenScenarios)
    t.test(`${where}: ${scenario.name}, undisturbed`, async (test) => {
      const stratum = (step: string, isMidway: boolean): string =>
        isMidway ? `${where}: ${step}, continued midway` : `${where}: ${scenario.name}: ${step}`;
      cases.push(...(await frozenCases(test, newWorld(where, t), scenario, { where, stratum })));
    });

t.test('a publisher that was stopped never commits, and does not disturb the other one', async (t) => {
  const strata = await walkCases(t, cases, { what: 'freezes (memory and local)' });
  hasSteps(t, strata, 'memory files: a replacement', stepsOfFiles);
  hasSteps(t, strata, 'memory objects: a replacement', stepsOfObjects);
});
