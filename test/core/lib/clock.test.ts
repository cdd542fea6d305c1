import { mock } from 'node:test';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';

t.beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'setInterval'] }));
t.afterEach(() => mock.timers.reset());

t.test('a timeout fires once, and never after it is cancelled', async (t) => {
  let fired = 0;
  systemClock.timeout(100, () => (fired += 1));
  const cancelled = systemClock.timeout(100, () => (fired += 10));
  cancelled.cancel();
  cancelled.cancel();
  mock.timers.tick(99);
  t.equal(fired, 0);
  mock.timers.tick(1000);
  t.equal(fired, 1);
});

t.test('an interval fires until it is cancelled', async (t) => {
  let fired = 0;
  const interval = systemClock.every(100, () => (fired += 1));
  mock.timers.tick(99);
  t.equal(fired, 0);
  mock.timers.tick(1);
  mock.timers.tick(200);
  t.equal(fired, 3);
  interval.cancel();
  mock.timers.tick(1000);
  t.equal(fired, 3);
});

t.test('a sleep that is aborted rejects with the reason and leaves no timer', async (t) => {
  const abort = new AbortController();
  const asleep = systemClock.sleep(100, abort.signal);
  abort.abort(new Error('enough'));
  await t.rejects(asleep, { message: 'enough' });
  await t.rejects(systemClock.sleep(100, abort.signal), { message: 'enough' });
  const awake = systemClock.sleep(100);
  mock.timers.tick(100);
  await t.resolves(awake);
});
