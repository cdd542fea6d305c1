import { backendOf, type StorageLocation } from './backends.ts';

/** Backend and place, for people: no secret is in it. Pure. */
export function describeLocation(location: StorageLocation): string {
  return backendOf(location).describe(location);
}
