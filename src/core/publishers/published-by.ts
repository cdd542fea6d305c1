/**
 * A trusted publisher's identity, as stored in run records. All fields except `publisher_id` are taken from
 * the claims of its ID token, and are null if the token lacks the claim.
 */
export interface PublishedBy {
  publisher_id: string;
  /** The claim `sub`. */
  subject: string | null;
  repository: string | null;
  ref: string | null;
  sha: string | null;
  /** The id of the run, pipeline or build in the CI system. */
  ci_run_id: string | null;
  /** The SHA-256 digest of all claims: `sha256:` followed by hexadecimal digits. */
  claims_digest: string;
}

/** The identity that requested a run: a trusted publisher, or a token from `upload_tokens`. */
export type PublisherIdentity = PublishedBy | { token_id: string };

/** The claim names used by GitHub Actions, GitLab, Buildkite and CircleCI, in this order. */
const claimsOf = {
  repository: ['repository', 'project_path', 'pipeline_slug', 'oidc.circleci.com/vcs-origin'],
  ref: ['ref', 'build_branch', 'oidc.circleci.com/vcs-ref'],
  sha: ['sha', 'build_commit'],
  ci_run_id: ['run_id', 'pipeline_id', 'build_number', 'oidc.circleci.com/pipeline-id'],
} as const;

const maxLength = 200;
const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * Extracts the identity from verified claims. Truncates long texts and replaces control characters with
 * spaces.
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
  // Buildkite also has a `pipeline_id` claim, but it identifies the pipeline itself. Its builds have numbers.
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
