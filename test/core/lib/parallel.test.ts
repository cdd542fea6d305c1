import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { inParallel } from '../../../src/core/lib/parallel.ts';

t.test(
  'synchronous work lets timers run, so that a lease is renewed while many files are written',
  async (t) => {
    let isRenewed = false;
    systemClock.timeout(0, () => (isRenewed = true));
    let done = 0;
    let doneAtRenewal = 0;
    await inParallel(Array(100_000), 16, async () => {
      done += 1;
      if (isRenewed && doneAtRenewal === 0) doneAtRenewal = done;
    });
    t.equal(done, 100_000);
    t.ok(doneAtRenewal > 0, 'before the last item');
  },
);

t.test('nothing is started after a failure, which is thrown once all running tasks end', async (t) => {
  const begun: number[] = [];
  let isOver = false;
  const work = async (item: number): Promise<void> => {
    begun.push(item);
    if (item === 1) throw new Error('one failed');
    await systemClock.sleep(1);
    isOver = true;
  };
  await t.rejects(inParallel([0, 1, 2, 3, 4], 2, work), { message: 'one failed' });
  t.ok(isOver);
  t.same(begun, [0, 1]);
});
