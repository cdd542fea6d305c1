import t from 'tap';
import { type Clock, systemClock } from '../../../../src/core/lib/clock.ts';
import { Watchdog } from '../../../../src/core/storage/sftp/watchdog.ts';

interface World {
  watchdog: Watchdog;
  socket: { bytesWritten: number; writableLength: number };
  advance: (ms: number) => void;
  gaveUp: () => number;
  pending: () => number;
}

function world(withinMs: number): World {
  let now = 0;
  let count = 0;
  let timers: { at: number; callback: () => void }[] = [];
  const clock: Clock = {
    ...systemClock,
    monotonic: () => now,
    timeout(ms, callback) {
      const timer = { at: now + ms, callback };
      timers.push(timer);
      return { cancel: () => void (timers = timers.filter((each) => each !== timer)) };
    },
  };
  const socket = { bytesWritten: 0, writableLength: 0 };
  const advance = (ms: number): void => {
    const end = now + ms;
    for (;;) {
      const due = timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      timers = timers.filter((each) => each !== due);
      now = due.at;
      due.callback();
    }
    now = end;
  };
  const watchdog = new Watchdog(clock, withinMs, socket, () => void (count += 1));
  return { watchdog, socket, advance, gaveUp: () => count, pending: () => timers.length };
}

t.test('a connection without progress is closed at the timeout', async (t) => {
  const { watchdog, advance, gaveUp } = world(100);
  watchdog.watch();
  advance(99);
  t.equal(gaveUp(), 0);
  advance(1);
  t.equal(gaveUp(), 1);
});

t.test('restarts the timeout with each response', async (t) => {
  const { watchdog, advance, gaveUp } = world(100);
  watchdog.watch();
  for (let answer = 0; answer < 10; answer += 1) {
    advance(60);
    watchdog.progressed();
  }
  t.equal(gaveUp(), 0);
  advance(99);
  t.equal(gaveUp(), 0);
  advance(1);
  t.equal(gaveUp(), 1);
});

t.test('sent bytes count as progress, and waiting bytes do not', async (t) => {
  const { watchdog, socket, advance, gaveUp } = world(100);
  watchdog.watch();
  socket.bytesWritten = 50;
  advance(100);
  t.equal(gaveUp(), 0);
  socket.bytesWritten = 80;
  socket.writableLength = 30;
  advance(100);
  t.equal(gaveUp(), 1);
});

t.test('an idle connection has no timeout', async (t) => {
  const { watchdog, advance, gaveUp, pending } = world(100);
  watchdog.watch();
  watchdog.watch();
  t.equal(pending(), 1, 'one timer for all requests');
  watchdog.rest();
  t.equal(pending(), 0);
  advance(1000);
  t.equal(gaveUp(), 0);
});
