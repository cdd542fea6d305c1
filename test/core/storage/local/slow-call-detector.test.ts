import t from 'tap';
import { slowCallDetector } from '../../../../src/core/storage/local/slow-call-detector.ts';

/** A detector whose calls take the given milliseconds. */
function timedCalls(): { isSlow: () => boolean; calls: (...durations: number[]) => void } {
  let time = 0;
  const disk = slowCallDetector({ slowMs: 1, now: () => time });
  return {
    isSlow: () => disk.isSlow(),
    calls: (...durations) => durations.forEach((ms) => disk.time(() => void (time += ms))),
  };
}

t.test('calls that are all slow mean a slow disk', async (t) => {
  const { isSlow, calls } = timedCalls();
  t.equal(isSlow(), false, 'a disk is quick until it shows otherwise');
  calls(...Array<number>(10).fill(1.5));
  t.equal(isSlow(), true);
});

t.test('a busy machine, where one call in four takes very long, is no slow disk', async (t) => {
  const { isSlow, calls } = timedCalls();
  for (let round = 0; round < 200; round += 1) {
    calls(0.01, 0.01, 0.01, 20);
    if (isSlow()) t.fail(`slow after round ${round}`);
  }
  t.equal(isSlow(), false);
});

t.test('a slow disk is tried again after a while, once', async (t) => {
  const { isSlow, calls } = timedCalls();
  calls(...Array<number>(10).fill(5));
  const asksUntilQuick = (): number => {
    let asks = 0;
    while (isSlow()) asks += 1;
    return asks;
  };
  t.equal(asksUntilQuick(), 69);
  calls(5);
  t.equal(asksUntilQuick(), 69, 'still slow');
  calls(0.1);
  t.equal(isSlow(), false, 'quick again');
});
