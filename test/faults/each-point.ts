import type { Test } from 'tap';
import { inParallel } from '../../src/core/parallel.ts';

/**
 * Walks points side by side, and says from time to time how far it came: a test file that is silent for
 * minutes is taken for one that hangs, and a walk may take as long where the machine is slow.
 */
export async function eachPoint<T>(
  t: Test,
  points: readonly T[],
  concurrency: number,
  walk: (point: T) => Promise<void>,
): Promise<void> {
  let walked = 0;
  await inParallel(points, concurrency, async (point) => {
    await walk(point);
    walked += 1;
    if (walked % 25 === 0) t.comment(`${walked} of ${points.length}`);
  });
}
