import { maxWholeCatalogBytes, type OutputRecord } from '../../catalog/catalog.ts';
import { bytesOfRecord, catalogTooLarge, maxBytesFor } from '../../catalog/serialise.ts';
import { changesDestination, type Plan, type PlannedOutput } from '../plan.ts';

/** An upper bound for the field names, numbers, times and digests of a record. */
const fixedBytes = 512;
/** JSON escapes a code unit with at most six bytes. */
const bytesPerUnit = 6;

/**
 * Refuses a plan whose catalog would be too large to read back. Throws `catalog_too_large` before anything is
 * written, also in a dry run. Pure.
 */
export function refuseLargeCatalog(plan: Plan): void {
  if (!changesDestination(plan.action)) return;
  const { untouched, writes, kept } = plan;
  const records = [untouched, writes, kept] as const;
  // The upper bound is a hundred times faster to compute, and suffices for all but the largest catalogs.
  if (sum(records, atMost) < maxWholeCatalogBytes) return;
  const updatedAt = new Date(0).toISOString();
  let longest = 0;
  const size = sum(records, (output) => {
    const bytes = bytesOfRecord({ updatedAt, ...output }) + '    ,\n'.length;
    longest = Math.max(longest, bytes);
    return bytes;
  });
  const maxBytes = maxBytesFor(longest);
  if (size > maxBytes) throw catalogTooLarge(plan.destinationPath, size, maxBytes);
}

type Recorded = Omit<OutputRecord, 'updatedAt'> | PlannedOutput;

function sum(lists: readonly (readonly Recorded[])[], bytesOf: (one: Recorded) => number): number {
  let total = 0;
  for (const list of lists) for (const one of list) total += bytesOf(one);
  return total;
}

function atMost({ path, kind, url, owner, source, generated }: Recorded): number {
  const units =
    path.length +
    kind.length +
    (url?.length ?? 0) +
    owner.pipelineId.length +
    owner.destinationId.length +
    source.id.length +
    source.path.length +
    (generated.contentType?.length ?? 0) +
    (generated.cacheControl?.length ?? 0) +
    (generated.generator?.name.length ?? 0);
  return fixedBytes + units * bytesPerUnit;
}
