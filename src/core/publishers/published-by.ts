/**
 * The identity behind an upload of a trusted publisher, as run records name it. Everything but
 * `publisher_id` is from the claims of its ID token; null where the token has no such claim.
 */
export interface PublishedBy {
  publisher_id: string;
  /** The claim `sub`. */
  subject: string | null;
  repository: string | null;
  ref: string | null;
  sha: string | null;
  /** The run, pipeline or build of the CI system. */
  ci_run_id: string | null;
  /** SHA-256 of all claims, as `sha256:` and hexadecimal digits. */
  claims_digest: string;
}

/** The identity that a run was requested with: a trusted publisher, or a token of `upload_tokens`. */
export type PublisherIdentity = PublishedBy | { token_id: string };

/** The claims of GitHub Actions, GitLab, Buildkite and CircleCI, in this order. */
const claimsOf = {
  repository: ['repository', 'project_path', 'pipeline_slug', 'oidc.circleci.com/vcs-origin'],
  ref: ['ref', 'build_branch', 'oidc.circleci.com/vcs-ref'],
  sha: ['sha', 'build_commit'],
  ci_run_id: ['run_id', 'pipeline_id', 'build_number', 'oidc.circleci.com/pipeline-id'],
} as const;

const maxLength = 200;
const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** Returns the identity in verified claims. Long texts are cut, and control characters become blanks. */
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
  // Buildkite has a claim `pipeline_id` too: the id of the pipeline itself. Its builds have numbers.
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
