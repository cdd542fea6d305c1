import t from 'tap';
import { scenarios, walkScenario } from './walk.ts';
import { newWorld, worldKinds } from './world.ts';

let walked = 0;
for (const kind of worldKinds)
  for (const scenario of scenarios) {
    if (kind.startsWith('memory objects') && scenario.action.includes('trading places')) continue; // Object stores have no directories.
    t.test(`${kind}: ${scenario.action}`, async (t) => {
      // What is decided above the storage does not differ on a disk; one way to fail a kind is walked there.
      const options = { everyCode: kind !== 'local', concurrency: 1 };
      walked += await walkScenario(t, (t) => newWorld(kind, t), scenario, options);
    });
  }

t.test('the walk', async (t) => {
  t.ok(walked > 1000, `${walked} fault points walked`);
  t.comment(`told: ${walked} fault points walked (memory and local)`);
});
