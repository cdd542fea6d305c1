import { setImmediate as endOfTurn } from 'node:timers/promises';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { createHolds } from '../../../src/workers/staging/partial-upload.ts';

t.test('if two requests wait for an upload, one gets it and the other waits for that one', async (t) => {
  const holds = createHolds(systemClock, 60_000);
  const first = await holds.take('u');
  const waiting = [holds.take('u'), holds.take('u')];
  t.equal(first.taken.aborted, true, 'the holder is asked to release it');
  first.release();
  const second = await (waiting[0] as (typeof waiting)[0]);
  let hasThird = false;
  const third = waiting[1]?.then((hold) => {
    hasThird = true;
    return hold;
  });
  await endOfTurn();
  t.equal(hasThird, false);
  t.equal(second.taken.aborted, true);
  second.release();
  (await third)?.release();
  t.equal(holds.isHeld('u'), false);
});
