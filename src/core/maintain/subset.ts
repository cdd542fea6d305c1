import { createHash } from 'node:crypto';

/*
 * Divides published paths into parts, so that a verification can be spread over several days.
 */

/** One part of all published paths. `part` is from 1 to `parts`. */
export interface Subset {
  part: number;
  parts: number;
}

const subsetForm = /^(\d{1,4})\/(\d{1,4})$/;

/** Parses `1/7` to `7/7`; undefined for anything else. Pure. */
export function parseSubset(text: string): Subset | undefined {
  const [part = 0, parts = 0] = (subsetForm.exec(text) ?? []).slice(1).map(Number);
  return part >= 1 && part <= parts ? { part, parts } : undefined;
}

/**
 * Whether a published path belongs to this part. A hash of the path decides, so that every path belongs to
 * exactly one part, which never changes. Pure.
 */
export function isInSubset({ part, parts }: Subset, destinationPath: string, path: string): boolean {
  const hash = createHash('sha256').update(`${destinationPath}/${path}`).digest();
  return hash.readUInt32BE(0) % parts === part - 1;
}
