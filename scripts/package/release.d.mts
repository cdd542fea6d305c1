import type { ChosenRepository } from './repository.mjs';

export interface Release {
  manifest: { version: string; publishConfig?: { provenance?: boolean } };
  repository: ChosenRepository;
  changelog: string;
  tags: readonly string[];
  changes: readonly string[];
}
export function releaseProblems(release: Release): string[];
