import { WaybillError } from '../../errors.ts';
import { backendOf, type DestinationLocation } from '../../storage/backends.ts';
import type { Plan } from '../plan.ts';

/**
 * A forced replacement deletes everything below its bundle path, which at the root of a destination can be a
 * whole bucket, with whatever else is kept in it. Throws `bucket_root_protected` if the backend protects that
 * root. Pure.
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
