import { realpathSync } from 'node:fs';
import type { Log } from '../../core/lib/log.ts';

/**
 * Moves the process to `/` if its working directory was removed, for example with an old release. Otherwise,
 * no new thread could start. Call this before a thread may be started.
 */
export function leaveRemovedDirectory(log: Pick<Log, 'warn'>): void {
  try {
    // `process.cwd()` is cached.
    realpathSync.native('.');
  } catch {
    process.chdir('/');
    log.warn({}, 'the working directory of the process was removed; it is / from now on');
  }
}
