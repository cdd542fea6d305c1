import type { CoreContext, OpenOptions, StorageLocation } from '../context.ts';
import { WaybillError } from '../errors.ts';
import { defaultRetryPolicy, type RetryPolicy } from '../retry.ts';
import type { Storage } from './storage.ts';
import { withLog } from './with-log.ts';
import { withRetry } from './with-retry.ts';

/**
 * Opens the storage of a configured location, with retry and log around it. Drivers are loaded when they are first needed: an SDK
 * costs a hundred times what the command line does to start.
 */
export function storageOpener(
  context: Pick<CoreContext, 'clock' | 'log' | 'secrets'>,
  policy: RetryPolicy = defaultRetryPolicy,
): CoreContext['openStorage'] {
  return async (location, options) => {
    const storage = await openDriver(location, options);
    const onRetry = (failure: unknown, attempt: number, pauseMs: number): void =>
      context.log.warn(
        { storage: storage.label, attempt, pauseMs, err: failure },
        'storage call failed, trying again',
      );
    return withRetry(withLog(storage, context.log, context.clock), { policy, clock: context.clock, onRetry });
  };
}

async function openDriver(location: StorageLocation, options: OpenOptions): Promise<Storage> {
  switch (location.backend) {
    case 'local': {
      const { localStorage } = await import('./local.ts');
      return localStorage(location.path, options);
    }
    case 'sftp':
    case 's3':
      throw new WaybillError(
        'config_invalid',
        `the backend "${location.backend}" is not part of this version`,
        {
          hint: 'use a local directory; SFTP and S3 come with the next version',
        },
      );
  }
}
