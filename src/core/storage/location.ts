import { backendOf, type SourceLocation, type StorageLocation } from './backends.ts';

/** Backend and place, for people: no secret is in it. Pure. */
export function describeLocation(location: StorageLocation): string {
  return backendOf(location).describe(location);
}

/**
 * The stable identity of a source, as the catalog records it: the configured place, and nothing that changes
 * from run to run. Pure.
 */
export function sourceId(source: SourceLocation): string {
  return describeLocation(source);
}
