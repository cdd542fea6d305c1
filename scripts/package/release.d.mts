export interface Release {
  manifest: { version: string; repository?: unknown; publishConfig?: { provenance?: boolean } };
  changelog: string;
  tags: readonly string[];
  changes: readonly string[];
}
export function releaseProblems(release: Release): string[];
