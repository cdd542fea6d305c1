/**
 * Identifies a trusted publisher in the record of a run. Apart from `publisher_id`, all of this is taken from
 * the claims in the ID token, and is null if there is no such claim.
 */
export interface PublishedBy {
  publisher_id: string;
  /** The `sub` claim. */
  subject: string | null;
  repository: string | null;
  ref: string | null;
  sha: string | null;
  /** The id that the CI system has for the run, pipeline or build. */
  ci_run_id: string | null;
  /** The SHA-256 digest of all claims, as `sha256:` and hexadecimal digits. */
  claims_digest: string;
}

/** Identifies the client that requested a run: a trusted publisher, or a token from `upload_tokens`. */
export type PublisherIdentity = PublishedBy | { token_id: string };

/** The names that claims have in GitHub Actions, GitLab, Buildkite and CircleCI, in this order. */
const claimsOf = {
  repository: ['repository', 'project_path', 'pipeline_slug', 'oidc.circleci.com/vcs-origin'],
  ref: ['ref', 'build_branch', 'oidc.circleci.com/vcs-ref'],
  sha: ['sha', 'build_commit'],
  ci_run_id: ['run_id', 'pipeline_id', 'build_number', 'oidc.circleci.com/pipeline-id'],
} as const;

const maxLength = 200;
const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * Takes the identity from claims that have been verified. Long values are cut off, and control characters
 * become spaces.
 */
export function publishedBy(
  publisherId: string,
  claims: Readonly<Record<string, unknown>>,
  claimsDigest: string,
): PublishedBy {
  const first = (names: readonly string[]): string | null => {
    for (const name of names) {
      const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
      const text = typeof value === 'number' ? String(value) : value;
      if (typeof text === 'string' && text !== '') return text.replaceAll(control, ' ').slice(0, maxLength);
    }
    return null;
  };
  // Buildkite has a claim called `pipeline_id`, too, but there it means the pipeline and not a run. Its
  // builds have numbers.
  const runNames = Object.hasOwn(claims, 'build_number') ? ['build_number'] : claimsOf.ci_run_id;
  return {
    publisher_id: publisherId,
    subject: first(['sub']),
    repository: first(claimsOf.repository),
    ref: first(claimsOf.ref),
    sha: first(claimsOf.sha),
    ci_run_id: first(runNames),
    claims_digest: claimsDigest,
  };
}
