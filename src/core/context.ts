import type { Clock } from './clock.ts';
import type { Secrets } from './config/secrets.ts';
import type { DestinationLocation, SourceConfig } from './config/config.ts';
import type { Log } from './log.ts';
import type { Storage } from './storage/storage.ts';

/** Everything from outside that the core works with; wired once by the CLI, the daemon or a test. */
export interface CoreContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** Opens a source or destination. The caller closes it. `readOnly`: a dry run, which may leave no trace at all. */
  openStorage: OpenStorage;
  signal?: AbortSignal;
}

export type StorageLocation = DestinationLocation | Exclude<SourceConfig, { backend: 'http_upload' }>;
export type OpenStorage = (location: StorageLocation, options: { readOnly: boolean }) => Promise<Storage>;
