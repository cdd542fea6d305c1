import type { Storage } from '../../storage/storage.ts';
import type { Lease, LeaseOptions } from './lease.ts';
import { acquireLockLease } from './lock-lease.ts';
import { acquireStateLease } from './state-lease.ts';

/**
 * Takes the lease of the bundle path that `storage` is rooted at, and waits for another holder according to
 * `times`. Throws `destination_busy` if a live holder keeps it, the reason of `signal` if that aborts first,
 * or the storage's error.
 */
export async function acquireLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  return storage.facts.rename === 'none'
    ? acquireStateLease(storage, options)
    : acquireLockLease(storage, options);
}
