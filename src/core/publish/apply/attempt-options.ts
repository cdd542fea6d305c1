import type { Lease } from '../../lease/lease.ts';
import type { Log } from '../../log.ts';
import type { Storage } from '../../storage/storage.ts';

export interface AttemptOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  log: Log;
  /** Files written, kept or removed at once. */
  concurrency: number;
  signal?: AbortSignal;
  /** Called with the size in bytes of each chunk that was written. */
  onBytes?: (count: number) => void;
  /** Called with the path of each output that was written, in staging if the storage can rename. */
  onOutput?: (path: string) => void;
}
