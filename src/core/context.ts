import type { Clock } from './clock.ts';
import type { Secrets } from './secrets.ts';
import type { DestinationLocation, SourceConfig } from './config/config.ts';
import type { Log } from './log.ts';
import type { Occurrence } from './notify/event.ts';
import type { Storage } from './storage/storage.ts';

/** Everything from outside that the core works with; wired once by the CLI, the daemon or a test. */
export interface CoreContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** Opens a source or destination. The caller closes it. */
  openStorage: OpenStorage;
  signal?: AbortSignal;
  /** Tells what happened, once it is committed; returns at once. Where it is left out nobody is told. */
  notify?: (occurrence: Occurrence) => void;
}

export type StorageLocation = DestinationLocation | Exclude<SourceConfig, { backend: 'http_upload' }>;
export type OpenStorage = (location: StorageLocation, options: OpenOptions) => Promise<Storage>;

export interface OpenOptions {
  /** Nothing may be changed: a source, or the destination of a dry run, which may leave no trace at all. */
  readOnly: boolean;
  /**
   * A root that is not there is `storage_not_found`, as it is for sources, instead of being made by the first
   * write.
   */
  mustExist?: boolean;
  /** Nothing is written on this machine either, such as the key of a host that is new. */
  dryRun?: boolean;
}
