export type Releaser = () => unknown;

/**
 * Runs `work` and afterwards calls everything that it passed to `onRelease`, last one first. Each is called
 * once, even if another one fails. If `work` throws, that error is thrown; otherwise, the first error from a
 * release is.
 */
export async function withReleasers<T>(
  work: (onRelease: (release: Releaser) => void) => Promise<T>,
): Promise<T> {
  const releases: Releaser[] = [];
  let result: T;
  try {
    result = await work((release) => void releases.push(release));
  } catch (error) {
    await releaseAll(releases);
    throw error;
  }
  const failures = await releaseAll(releases);
  if (failures.length > 0) throw failures[0];
  return result;
}

/**
 * Opens something that stays open after this returns, such as a daemon. If `open` throws, everything it has
 * acquired so far is released, last one first, and the error is thrown again. Errors while releasing are
 * ignored. If `open` succeeds, nothing is released, because what it acquired now belongs to the result.
 */
export async function openOrRelease<T>(
  open: (onFailure: (release: Releaser) => void) => Promise<T>,
): Promise<T> {
  const releases: Releaser[] = [];
  try {
    return await open((release) => void releases.push(release));
  } catch (error) {
    await releaseAll(releases);
    throw error;
  }
}

/**
 * Calls everything that closes a part, in order. Each is called even if another one fails. Throws the first
 * error afterwards.
 */
export async function closeAll(...closers: Releaser[]): Promise<void> {
  const failures = await releaseAll(closers.reverse());
  if (failures.length > 0) throw failures[0];
}

async function releaseAll(releases: Releaser[]): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const release of releases.reverse()) {
    try {
      await release();
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}
