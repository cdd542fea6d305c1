import { createHash } from 'node:crypto';

/** The part `part` of `parts` of all published paths, from 1. */
export interface Subset {
  part: number;
  parts: number;
}

const subsetForm = /^(\d{1,4})\/(\d{1,4})$/;

/** `1/7` to `7/7`; undefined if it is nothing of the kind. Pure. */
export function parseSubset(text: string): Subset | undefined {
  const [part = 0, parts = 0] = (subsetForm.exec(text) ?? []).slice(1).map(Number);
  return part >= 1 && part <= parts ? { part, parts } : undefined;
}

/**
 * Whether a published path belongs to this part: by a hash of its name, so that all parts together are all
 * paths, each once, on whatever day and in whatever order they are read. Pure.
 */
export function isInSubset({ part, parts }: Subset, destinationPath: string, path: string): boolean {
  const hash = createHash('sha256').update(`${destinationPath}/${path}`).digest();
  return hash.readUInt32BE(0) % parts === part - 1;
}
