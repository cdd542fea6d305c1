import pMap from 'p-map';

/**
 * Runs `work` on each item, at most `concurrency` at once. After the first failure nothing more is started;
 * what is under way is waited for, so that nothing goes on behind the back of whoever cleans up; then that
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
