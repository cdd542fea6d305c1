export interface RepositoryKeys {
  repository: { type: 'git'; url: string };
  homepage: string;
  bugs?: { url: string };
}
export type ChosenRepository =
  { address: string; problem?: undefined } | { problem: string; address?: undefined };
export function publicRepository(address: string): string | undefined;
export function chosenRepository(known: {
  option?: string | undefined;
  manifest: { repository?: string | { url: string } | undefined };
  origin?: string | undefined;
}): ChosenRepository;
export function repositoryKeys(address: string): RepositoryKeys;
