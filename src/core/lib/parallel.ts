import { setImmediate as breathe } from 'node:timers/promises';

/** After so many items the event loop gets its turn. */
const itemsPerBreath = 256;

/**
 * Runs `work` on each item, at most `concurrency` (from 1) at once. After the first failure nothing more is
 * started; whatever is under way is awaited, so that nothing still runs while the caller cleans up; then the
 * first failure is thrown. Work that never waits (a local disk answers at once) would keep timers from
 * running for as long as there are items, above all the lease's; so this yields to them now and then.
 */
export async function inParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const remaining = items[Symbol.iterator]();
  let begun = 0;
  const runner = async (): Promise<void> => {
    try {
      for (let next = remaining.next(); next.done !== true; next = remaining.next()) {
        begun += 1;
        if (begun % itemsPerBreath === 0) await breathe();
        if (failures.length > 0) return;
        await work(next.value);
      }
    } catch (error) {
      failures.push(error);
    }
  };
  // p-map makes several promises for each item.
  await Promise.all(Array.from({ length: concurrency }, runner));
  if (failures.length > 0) throw failures[0];
}
