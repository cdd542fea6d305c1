import t, { type Test } from 'tap';
import { isExhaustive, share } from '../support/sampling.ts';
import { releaseScenarios, walkReleases } from './release-walk.ts';
import type { WorldFactory } from './walk.ts';

/** What is done with releases, with every fault at every operation, on a real server. */
export function walkReleasesOn(name: string, newWorld: WorldFactory): void {
  let [walked, all] = [0, 0];
  for (const scenario of releaseScenarios)
    t.test(`${name}: ${scenario.name}`, async (t: Test) => {
      const done = await walkReleases(t, newWorld, scenario, { drawn: 6, concurrency: 8 });
      walked += done.points;
      all += done.all;
    });

  t.test(`the walk over ${name}`, async (t) => {
    t.ok(all > 150, `${all} fault points`);
    t.ok(isExhaustive ? walked === all : walked > 40, `${walked} of them walked`);
    t.comment(`told: ${share(walked, all)} fault points walked (releases, ${name})`);
  });
}
