import t from 'tap';
import { scenarios, walkScenario } from './walk.ts';
import { walkUndo } from './undo-walk.ts';
import { newWorld, worldKinds } from './world.ts';
import { isExhaustive, sampleOf, share } from '../support/sampling.ts';

let [walked, all] = [0, 0];
let [kills, allKills] = [0, 0];
for (const kind of worldKinds) {
  const undone = sampleOf(scenarios, 4, `undone on ${kind}`);
  for (const scenario of scenarios) {
    if (kind.startsWith('memory objects') && scenario.action.includes('trading places')) continue; // Object stores have no directories.
    t.test(`${kind}: ${scenario.action}`, async (t) => {
      // What is decided above the storage does not differ on a disk; one way to fail a kind is walked there.
      const options = { everyCode: kind !== 'local', concurrency: 1, drawn: 15 };
      const done = await walkScenario(t, (t) => newWorld(kind, t), scenario, options);
      walked += done.points;
      all += done.all;
    });
    if (!undone.includes(scenario)) continue;
    t.test(`${kind}: ${scenario.action}, killed while it is undone`, async (t) => {
      const options = { atMost: Infinity, drawn: 4, concurrency: 1 };
      const done = await walkUndo(t, (t) => newWorld(kind, t), scenario, options);
      kills += done.points;
      allKills += done.all;
    });
  }
}

t.test('the walk', async (t) => {
  t.ok(all > 1000, `${all} fault points`);
  t.ok(isExhaustive ? walked === all : walked > 100, `${walked} of them walked`);
  t.comment(`told: ${share(walked, all)} fault points walked (memory and local)`);
  t.ok(isExhaustive ? kills === allKills && kills > 500 : kills > 7, `${kills} kills of an undoing walked`);
  t.comment(`told: ${share(kills, allKills)} kills of an undoing walked (memory and local)`);
});
