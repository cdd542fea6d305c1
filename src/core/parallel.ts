import pMap from 'p-map';

/**
 * Runs `work` on each item, at most `concurrency` (from 1) at once. After the first failure nothing more is
 * started; whatever is under way is awaited, so that nothing still runs while the caller cleans up; then the
 * first failure is thrown.
 */
export async function inParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  await pMap(
    items,
    async (item) => {
      if (failures.length > 0) return;
      try {
        await work(item);
      } catch (error) {
        failures.push(error);
      }
    },
    { concurrency },
  );
  if (failures.length > 0) throw failures[0];
}
