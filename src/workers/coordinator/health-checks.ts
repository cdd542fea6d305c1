import type { Clock } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { RunReader } from '../queue/job-queue.ts';
import { provedAtMost, proveRoom, proveStaging } from '../staging/staging-check.ts';

/** Something that has to work for uploads to be accepted. */
export interface HealthCheck {
  name: 'queue' | 'staging' | 'room' | 'shared_staging';
  /** The error code to report if the check doesn't respond at all. */
  silent: ErrorCode;
  /**
   * Explains to operators how to fix the problem. Since it is public, it may mention settings but not their
   * values.
   */
  remedy: string;
  /**
   * Runs the check, and throws an error if it fails. The error must not contain anything confidential. Cheap
   * enough to be called often.
   */
  prove(): Promise<void>;
}

const checkEveryMs = 1_000;

/**
 * Checks that uploads can be written to the directory and that there is enough space. `everyMs` is only for
 * tests.
 */
export function stagingChecks(directory: string, clock: Clock, everyMs = checkEveryMs): HealthCheck[] {
  return [
    {
      name: 'staging',
      silent: 'staging_unavailable',
      remedy: 'see that server.staging.directory is there and that the daemon may write to it',
      prove: provedAtMost(clock, everyMs, () => proveStaging(directory)),
    },
    {
      name: 'room',
      silent: 'staging_unavailable',
      remedy: 'make room on the disk of server.staging.directory: uploads need 16 MiB at least',
      prove: provedAtMost(clock, everyMs, () => proveRoom(directory)),
    },
  ];
}

/**
 * Checks that the queue responds and is able to store runs.
 *
 * @param keeps Throws if the queue can't store anything right now.
 */
export function queueCheck(
  queue: Pick<RunReader, 'depth'>,
  { remedy, keeps = () => undefined }: { remedy: string; keeps?: () => void | Promise<void> },
): HealthCheck {
  return {
    name: 'queue',
    silent: 'queue_unavailable',
    remedy,
    prove: async () => {
      await keeps();
      await queue.depth();
    },
  };
}
