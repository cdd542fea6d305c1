import t from 'tap';
import { frozenScenarios, walkFrozen } from './frozen.ts';
import { newWorld, worldKinds } from './world.ts';
import { isExhaustive } from '../support/sampling.ts';

let walked = 0;
for (const kind of worldKinds)
  for (const scenario of frozenScenarios)
    t.test(`${kind}: frozen in ${scenario.name}, it never commits and disturbs nobody`, async (t) => {
      const options = { drawn: 12, midway: 80, concurrency: 1 };
      walked += await walkFrozen(t, (t) => newWorld(kind, t), scenario, options);
    });

t.test('the walk', async (t) => {
  t.ok(walked > (isExhaustive ? 1200 : 300), `${walked} freezes`);
  t.comment(`told: ${walked} freezes of a publisher walked (memory and local)`);
});
