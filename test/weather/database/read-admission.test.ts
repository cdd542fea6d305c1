import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { openAdmission } from '../../../src/weather/database/read-admission.ts';

const limits = { maxConcurrent: 4, share: 2, waitMs: 5000 };

/** Time passes only if a test advances it, and no timer fires. */
function stoppedClock() {
  let now = 0;
  return {
    ...systemClock,
    monotonic: () => now,
    timeout: () => ({ cancel: () => undefined }),
    pass: (ms: number) => (now += ms),
  };
}

/** Everything that can be settled now is settled. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** One after another, so that the queue learns the duration of a read. */
async function readsThatTake(
  ms: number,
  count: number,
  admit: ReturnType<typeof openAdmission>,
  clock: ReturnType<typeof stoppedClock>,
) {
  for (let read = 0; read < count; read += 1) {
    const release = await admit('alerts');
    clock.pass(ms);
    release();
  }
}

t.test('a burst of short reads waits and succeeds', async (t) => {
  const clock = stoppedClock();
  const admit = openAdmission(limits, clock);
  await readsThatTake(1, 20, admit, clock);
  let done = 0;
  const crowd = Array.from({ length: 500 }, async () => {
    const release = await admit('alerts');
    await settled();
    done += 1;
    release();
  });
  await Promise.all(crowd);
  t.equal(done, 500);
});

t.test('a read that would wait too long is rejected immediately, with the time to retry', async (t) => {
  const clock = stoppedClock();
  const admit = openAdmission(limits, clock);
  await readsThatTake(1000, 40, admit, clock);
  const held = [await admit('alerts'), await admit('alerts')];
  // Each waits for half a second more than the previous one, and then takes a second.
  const waiting = Array.from({ length: 8 }, () => admit('alerts'));
  await settled();
  await t.rejects(admit('alerts'), { code: 'POOL_FULL', retryAfterSeconds: 6 });
  t.type(await admit('observations'), 'function', 'another family has a separate share');

  for (const release of held) release();
  for (const next of waiting) (await next)();
});

t.test('a family that was slow is admitted again once it is fast', async (t) => {
  const clock = stoppedClock();
  const admit = openAdmission(limits, clock);
  await readsThatTake(10_000, 40, admit, clock);
  const held = [await admit('alerts'), await admit('alerts')];
  await t.rejects(admit('alerts'), { code: 'POOL_FULL', retryAfterSeconds: 15 });
  for (const release of held) release();
  await readsThatTake(1, 40, admit, clock);
  const again = [await admit('alerts'), await admit('alerts')];
  const next = admit('alerts');
  for (const release of again) release();
  t.type(await next, 'function');
});

t.test('waits at most as long as a read may take', async (t) => {
  const admit = openAdmission({ maxConcurrent: 1, share: 1, waitMs: 20 }, systemClock);
  const release = await admit('alerts');
  await t.rejects(admit('alerts'), { code: 'POOL_TIMEOUT' });
  await t.rejects(admit('observations'), { code: 'POOL_TIMEOUT' }, 'also not for all families together');
  release();
  (await admit('observations'))();
});
