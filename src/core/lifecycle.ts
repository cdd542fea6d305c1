/**
 * Things that must be given back, given back in the opposite order of taking, each exactly once and all of
 * them even when one fails. The first failure is thrown when the work itself succeeded, and attached to
 * nothing when it did not: the work's own error is the one people need.
 */
export type Release = () => void | Promise<void>;

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
