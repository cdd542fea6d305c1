import { WaybillError } from '../../lib/errors.ts';
import { backendOf, type DestinationLocation } from '../../storage/backends.ts';
import type { Plan } from '../plan.ts';

/**
 * Refuses a forced replacement at a destination root that is a whole bucket: it would also delete unrelated
 * files in the bucket. Throws `bucket_root_protected` if the backend protects that root. Pure.
 */
export function refuseBucketRoot(
  { clears, destinationPath }: Pick<Plan, 'clears' | 'destinationPath'>,
  location: DestinationLocation,
): void {
  if (!clears || destinationPath !== '.') return;
  const backend = backendOf(location);
  const root = backend.protectedRoot(location);
  if (root === null) return;
  throw new WaybillError(
    'bucket_root_protected',
    `${backend.describe(location)}: a forced replacement here would delete everything in ${root.holder}; nothing was deleted`,
    { hint: root.hint },
  );
}
