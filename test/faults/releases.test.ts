import t from 'tap';
import { isExhaustive, share } from '../support/sampling.ts';
import { releaseScenarios, walkReleases } from './release-walk.ts';
import { newWorld } from './world.ts';

/** What is done with releases, with every fault at every operation, in memory and in a local directory. */
let [walked, all] = [0, 0];
for (const kind of ['memory files', 'memory objects', 'local'] as const)
  for (const scenario of releaseScenarios)
    t.test(`${kind}: ${scenario.name}`, async (t) => {
      const options = { drawn: 25, concurrency: 1 };
      const done = await walkReleases(t, (t) => newWorld(kind, t), scenario, options);
      walked += done.points;
      all += done.all;
    });

t.test('the walk', async (t) => {
  t.ok(all > 800, `${all} fault points`);
  t.ok(isExhaustive ? walked === all : walked > 300, `${walked} of them walked`);
  t.comment(`told: ${share(walked, all)} fault points walked (releases, memory and local)`);
});
