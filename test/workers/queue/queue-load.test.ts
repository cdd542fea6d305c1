import t from 'tap';
import { estimatedWaitSeconds, maxEndTimes, RunEndTimes } from '../../../src/workers/queue/refusals.ts';

const everySecond = (runs: number, from = 0): number[] =>
  Array.from({ length: runs }, (_, index) => from + index * 1000);

t.test('returns a Retry-After that covers all waiting runs', async (t) => {
  t.equal(
    estimatedWaitSeconds({ waiting: 32, endedAt: everySecond(11), now: 10_000, isPaused: false }),
    32,
    'one a second',
  );
  t.equal(
    estimatedWaitSeconds({ waiting: 32, endedAt: [0, 100, 200], now: 200, isPaused: false }),
    4,
    'ten a second, rounded up',
  );
  t.equal(
    estimatedWaitSeconds({ waiting: 3, endedAt: [0, 20_000], now: 20_000, isPaused: false }),
    60,
    'three a minute',
  );
});

t.test('it is 1 to 300 seconds, with any measurements', async (t) => {
  t.equal(estimatedWaitSeconds({ waiting: 1, endedAt: [5, 5, 5], now: 5, isPaused: false }), 1);
  t.equal(estimatedWaitSeconds({ waiting: 0, endedAt: everySecond(3), now: 2_000, isPaused: false }), 1);
  t.equal(
    estimatedWaitSeconds({ waiting: 100_000, endedAt: everySecond(3), now: 2_000, isPaused: false }),
    300,
  );
});

t.test('returns longer Retry-After times for a stalled queue', async (t) => {
  const endedAt = everySecond(5);
  const answers = [4_000, 8_000, 40_000].map((now) =>
    estimatedWaitSeconds({ waiting: 10, endedAt, now, isPaused: false }),
  );
  t.same(answers, [10, 20, 100]);
});

t.test('it is ten seconds without a measurement', async (t) => {
  const now = 20 * 60_000;
  for (const endedAt of [[], [now - 1], everySecond(60), [...everySecond(60), now - 1]])
    t.equal(
      estimatedWaitSeconds({ waiting: 32, endedAt, now, isPaused: false }),
      10,
      'too few ends, or too long ago',
    );
});

t.test('it is the maximum for a paused pipeline', async (t) => {
  t.equal(estimatedWaitSeconds({ waiting: 1, endedAt: everySecond(5), now: 4_000, isPaused: true }), 300);
});

t.test('stores the last end times, of each pipeline and of all', async (t) => {
  const ends = new RunEndTimes();
  t.same([ends.of(null), ends.of('maps')], [[], []]);
  for (let at = 0; at < maxEndTimes + 3; at++) ends.note(at % 2 === 0 ? 'maps' : 'docs', at);
  t.equal(ends.of(null).length, maxEndTimes);
  t.same([ends.of(null)[0], ends.of('maps')[0], ends.of('docs')[0]], [3, 0, 1]);
});
