import type { Lease } from '../../lease/lease.ts';
import type { Log } from '../../log.ts';
import type { Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

export interface AttemptOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  log: Log;
  /** Files written, kept or removed at once. */
  concurrency: number;
  signal?: AbortSignal;
  /**
   * Puts an output at a key from elsewhere in the storage, so that its bytes need not be written; false if it
   * has to be written.
   */
  duplicate?: (output: PlannedOutput, to: Key) => Promise<boolean>;
  /** Called with the size in bytes of each chunk that was written. */
  onBytes?: (count: number) => void;
  /** Called with the path of each output that was written, in staging if the storage can rename. */
  onOutput?: (path: string) => void;
}
