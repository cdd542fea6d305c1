/** Releases one resource. */
export type Release = () => void | Promise<void>;

/**
 * Runs `work`, then calls everything that it registered with `onRelease`, in reverse order and exactly once
 * each, even if one of them fails. If `work` failed, throws its error. Otherwise, throws the first error of a
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
 * released in reverse order and the error is rethrown. Errors of releases are ignored. If `open` returns,
 * nothing is released, because the result owns the acquired resources.
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
