import { readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { sharedEventLoop } from '../../../src/core/lib/event-loop.ts';
import { bundleTar, inChunks } from '../../fixtures/tar.ts';

/** Advances with each read, so that the work done in a turn does not depend on the machine. */
function countingClock(msEachLook: number): { monotonic: () => number } {
  let now = 0;
  return { monotonic: () => (now += msEachLook) };
}

const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('many tasks share each turn of the event loop, in the order of their requests', async (t) => {
  const { yieldToEventLoop } = sharedEventLoop(countingClock(0.3));
  const done: number[] = [];
  const workers = Array.from({ length: 20 }, async (_, worker) => {
    for (let piece = 0; piece < 10; piece += 1) {
      await yieldToEventLoop();
      done.push(worker);
    }
  });
  const turns: number[][] = [];
  while (done.length < 200) {
    const before = done.length;
    await endOfTurn();
    if (done.length > before) turns.push(done.slice(before));
  }
  await Promise.all(workers);
  // Each check takes 0.3 ms of a millisecond: one at the start, and three more.
  t.ok(
    turns.every((turn) => turn.length <= 4),
    JSON.stringify(turns.map(({ length }) => length)),
  );
  t.same(
    [...new Set(done)],
    Array.from({ length: 20 }, (_, worker) => worker),
  );
});

t.test('a turn ends after its time even if each task has only one short piece of work', async (t) => {
  let now = 0;
  const { yieldToEventLoop } = sharedEventLoop({ monotonic: () => now });
  let [done, turns] = [0, 0];
  const workers = Promise.all(
    Array.from({ length: 40 }, async () => {
      await yieldToEventLoop();
      now += 0.1;
      done += 1;
    }),
  );
  while (done < 40) {
    await endOfTurn();
    turns += 1;
    now += 1;
  }
  await workers;
  // Ten tasks of 0.1 ms each, plus or minus one that began before the time was up.
  t.ok(turns >= 4 && turns <= 6, `${turns} turns`);
});

t.test('new connections have priority over other work, for at most 16 turns', async (t) => {
  const { yieldToEventLoop, onAccepted } = sharedEventLoop(countingClock(2));
  const turnsUntilDone = async (connections: number): Promise<number> => {
    let [isDone, turns] = [false, 0];
    const work = Promise.resolve(yieldToEventLoop()).then(() => (isDone = true));
    const isOver = (): boolean => isDone;
    for (; !isOver(); turns += 1) {
      if (turns < connections) onAccepted();
      await endOfTurn();
    }
    await work;
    return turns;
  };
  const [none, three, many] = [await turnsUntilDone(0), await turnsUntilDone(3), await turnsUntilDone(999)];
  t.equal(three - none, 3);
  t.equal(many - none, 16, 'a flood of connections does not stop the work');
});

t.test('yields once a millisecond when nothing else uses the event loop', async (t) => {
  let now = 0;
  const { yieldToEventLoop } = sharedEventLoop({ monotonic: () => now });
  t.type(yieldToEventLoop(), Promise, 'initially');
  await yieldToEventLoop();
  t.equal(yieldToEventLoop(), undefined);
  now += 0.9;
  t.equal(yieldToEventLoop(), undefined);
  now += 0.2;
  t.type(yieldToEventLoop(), Promise);
});

t.test('concurrent uploads are staged a few files per turn, however much data has arrived', async (t) => {
  const root = t.testdir();
  const { yieldToEventLoop } = sharedEventLoop(countingClock(0.3));
  const files = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`f${index}`, `${index}`]));
  const directories = Array.from({ length: 20 }, (_, index) => path.join(root, String(index)));
  let isDone = false;
  const staging = Promise.all(
    directories.map((directory, index) =>
      stageUpload({
        input: inChunks(bundleTar(files, { name: `b${index}` })),
        directory,
        limits: { maxUploadSize: 2 ** 20, maxFiles: 100 },
        signal: new AbortController().signal,
        yieldToEventLoop,
      }),
    ),
  ).finally(() => (isDone = true));
  const staged = (): number => readdirSync(root, { recursive: true }).length;
  let [before, most] = [0, 0];
  const isOver = (): boolean => isDone;
  while (!isOver()) {
    await endOfTurn();
    const now = staged();
    most = Math.max(most, now - before);
    before = now;
  }
  await staging;
  // A millisecond has time for four pieces, and starting an upload creates two directories.
  t.ok(most > 0 && most <= 8, `at most ${most} of ${before} in one turn`);
});
