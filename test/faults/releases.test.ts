import t from 'tap';
import { type Case, walkCases } from '../support/sampling.ts';
import { releaseScenarios } from './release-scenarios.ts';
import { releaseCases } from './release-walk.ts';
import { hasSteps } from './steps.ts';
import { newWorld } from './world.ts';

/** Every fault at every operation of the actions on releases, in memory and in a local directory. */
const cases: Case[] = [];
for (const where of ['memory files', 'memory objects', 'local'] as const)
  for (const scenario of releaseScenarios)
    t.test(`${where}: ${scenario.name}, without faults`, async (test) => {
      const stratum = (step: string, fault: string): string =>
        where === 'local' ? `${where}: ${step}, ${fault}` : `${where}: ${scenario.name}: ${step}`;
      cases.push(...(await releaseCases(test, newWorld(where, t), scenario, { where, stratum })));
    });

t.test('after every fault, readers have a complete release', async (t) => {
  const strata = await walkCases(t, cases, { what: 'fault points (releases, memory and local)' });
  const steps = ['idle: write ledger', 'idle: replaceLink pointer', 'idle: read lease'];
  hasSteps(t, strata, 'memory files', steps);
  hasSteps(t, strata, 'memory objects', ['idle: write pointer']);
});
