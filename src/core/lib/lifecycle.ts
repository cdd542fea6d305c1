/** Releases one resource. */
export type Release = () => void | Promise<void>;

/**
 * Runs `work`, then releases what it registered with `onRelease`, in reverse order, each exactly once and all
 * of them even if one fails. If `work` failed, its own error is thrown; otherwise the first failure of a
 * release.
 */
export async function withReleasers<T>(
  work: (onRelease: (release: Release) => void) => Promise<T>,
): Promise<T> {
  const releases: Release[] = [];
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
 * Opens something that outlives the call, such as a daemon. If `open` throws, everything acquired so far is
 * released, last acquired first, and the error is rethrown; failures of releases are dropped. If it returns,
 * nothing is released: the result owns what was acquired.
 */
export async function releasedOnFailure<T>(
  open: (onFailure: (release: Release) => void) => Promise<T>,
): Promise<T> {
  const releases: Release[] = [];
  try {
    return await open((release) => void releases.push(release));
  } catch (error) {
    await releaseAll(releases);
    throw error;
  }
}

async function releaseAll(releases: Release[]): Promise<unknown[]> {
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
