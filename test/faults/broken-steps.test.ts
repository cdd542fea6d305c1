import { readFileSync } from 'node:fs';
import t from 'tap';
import { brokenSteps } from '../../scripts/broken-steps/steps.ts';

t.test('each step that `npm run test:broken-steps` removes is in the source once', async (t) => {
  for (const { step, file, from } of brokenSteps)
    t.equal(readFileSync(file, 'utf8').split(from).length, 2, `${step}: ${file}`);
});
