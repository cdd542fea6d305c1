import type { Lease } from '../../catalog/lease/lease.ts';
import type { Log } from '../../lib/log.ts';
import type { Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

export interface AttemptOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  log: Log;
  /** The number of files written, kept or removed concurrently. */
  concurrency: number;
  signal?: AbortSignal;
  /**
   * Copies or links an output to a key from elsewhere in the storage. Returns false if it must be written.
   */
  duplicate?: (output: PlannedOutput, to: Key) => Promise<boolean>;
  /** Called with the size in bytes of each written chunk. */
  onBytes?: (count: number) => void;
  /** Called with the path of each output once it is written, or staged if the storage can rename. */
  onOutput?: (path: string) => void;
}
