import type { CoreContext, OpenOptions, StorageLocation } from '../context.ts';
import { defaultRetryPolicy, retry, type RetryPolicy } from '../retry.ts';
import type { Storage } from './storage.ts';
import { withLog } from './wrappers/log.ts';
import { withRetry } from './wrappers/retry.ts';

/**
 * Opens the storage of a configured location, with retry and log around it. Drivers are loaded when they are
 * first needed: an SDK costs a hundred times what the command line does to start.
 */
export function storageOpener(
  context: Pick<CoreContext, 'clock' | 'log' | 'secrets'>,
  policy: RetryPolicy = defaultRetryPolicy,
): CoreContext['openStorage'] {
  return async (location, options) => {
    const storage = await retry({ policy, clock: context.clock }, () =>
      openDriver(context, location, options),
    );
    const onRetry = (failure: unknown, attempt: number, pauseMs: number): void =>
      context.log.warn(
        { storage: storage.label, attempt, pauseMs, err: failure },
        'storage call failed, trying again',
      );
    return withRetry(withLog(storage, context.log, context.clock), { policy, clock: context.clock, onRetry });
  };
}

async function openDriver(
  context: Pick<CoreContext, 'clock' | 'log' | 'secrets'>,
  location: StorageLocation,
  options: OpenOptions,
): Promise<Storage> {
  switch (location.backend) {
    case 'local': {
      const { localStorage } = await import('./local/driver.ts');
      return localStorage(location.path, options);
    }
    case 's3': {
      const { s3Storage } = await import('./s3/driver.ts');
      return s3Storage(location, { ...context, readOnly: options.readOnly });
    }
    case 'sftp': {
      const { sftpStorage } = await import('./sftp/driver.ts');
      return sftpStorage(location, { ...context, ...options });
    }
  }
}
