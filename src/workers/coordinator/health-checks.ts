import type { Clock } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { WaybillError } from '../../core/lib/errors.ts';
import type { RunReader } from '../queue/job-queue.ts';
import { provedAtMost, proveRoom, proveStaging } from '../staging/staging-check.ts';

/** One thing without which no upload can be taken. */
export interface HealthCheck {
  name: 'queue' | 'staging' | 'room' | 'shared_staging';
  /** What its not answering at all is reported as. */
  silent: ErrorCode;
  /** What an operator does if it fails. Anybody may read it: it names settings, not what they are set to. */
  remedy: string;
  /** Throws an error that may be shown to anybody. May be called often. */
  prove(): Promise<void>;
  /** What is missing though uploads are taken; asked where nothing was thrown. Null if nothing is. */
  lacking?(): Promise<WaybillError | null>;
}

const checkEveryMs = 1_000;

/**
 * That uploads can be received into the directory, and that there is room for them. Only tests pass their own
 * `everyMs`.
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
 * That the queue answers and keeps what it accepts.
 *
 * @param keeps Throws if nothing can be kept at the moment.
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
