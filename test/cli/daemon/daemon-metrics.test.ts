import t from 'tap';
import { watchLoopLag } from '../../../src/cli/daemon/daemon-metrics.ts';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';

t.test('a blocked event loop is measured, and logged if blocked for a second or more', async (t) => {
  let now = 0;
  let tick: () => void = () => undefined;
  let isCancelled = false;
  const clock: Clock = {
    ...systemClock,
    monotonic: () => now,
    every: (_ms, callback) => {
      tick = callback;
      return { cancel: () => (isCancelled = true) };
    },
  };
  const measured: number[] = [];
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const watch = watchLoopLag({ clock, log, record: (seconds) => void measured.push(seconds) });
  // It is due after 100 ms. A slightly early clock counts as on time.
  for (const ms of [100, 99, 150, 1_099, 1_100, 3_350]) {
    now += ms;
    tick();
  }
  t.same(measured, [0, 0, 0.05, 0.999, 1, 3.25]);
  t.same(warnings, [{ ms: 1_000 }, { ms: 3_250 }]);
  watch.cancel();
  t.ok(isCancelled);
});
