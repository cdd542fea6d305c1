import type { DestinationLocation } from '../config/config.ts';
import { WaybillError } from '../errors.ts';
import { describeLocation } from '../storage/location.ts';
import type { Plan } from './plan.ts';

/**
 * A forced replacement deletes everything below its bundle path, and without a prefix the root of an S3
 * destination is a whole bucket, with whatever else is kept in it. Throws `bucket_root_protected` where the
 * configuration does not allow that. Pure.
 */
export function refuseBucketRoot(
  { clears, destinationPath }: Pick<Plan, 'clears' | 'destinationPath'>,
  location: DestinationLocation,
): void {
  if (!clears || destinationPath !== '.') return;
  if (location.backend !== 's3' || location.prefix !== '' || location.allowBucketRoot) return;
  throw new WaybillError(
    'bucket_root_protected',
    `${describeLocation(location)}: a forced replacement here would delete everything in the bucket; nothing was deleted`,
    {
      hint: 'give the destination a prefix, or set allow_bucket_root: true if the whole bucket is its own',
    },
  );
}
