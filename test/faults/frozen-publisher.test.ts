import t from 'tap';
import { type Case, walkCases } from '../support/sampling.ts';
import { frozenCases, type FrozenOptions, frozenScenarios } from './frozen.ts';
import { hasSteps, stepsOfFiles, stepsOfObjects } from './steps.ts';
import { newWorld, worldKinds } from './world.ts';

/** A publisher that is suspended past its lease, in memory and in a local directory. */
const cases: Case[] = [];
for (const where of worldKinds)
  for (const scenario of frozenScenarios)
    t.test(`${where}: ${scenario.name}, without faults`, async (test) => {
      const stratum: FrozenOptions['stratum'] = (step, kind) => {
        if (kind === 'midway') return `${where}: ${step}, continued midway`;
        return `${where}: ${scenario.name}: ${kind === 'whole' ? step : kind}`;
      };
      const renames = where === 'memory files' || where === 'local';
      cases.push(...(await frozenCases(test, newWorld(where, t), scenario, { where, stratum, renames })));
    });

t.test('a publisher that was stopped never commits, and does not affect the other one', async (t) => {
  const strata = await walkCases(t, cases, { what: 'freezes (memory and local)' });
  hasSteps(t, strata, 'memory files: a replacement', stepsOfFiles);
  hasSteps(t, strata, 'memory objects: a replacement', stepsOfObjects);
});
