import type { Trail } from '../../core/audit/trail.ts';
import type { TrailSettings } from '../../core/audit/trail-writer.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { RunReader } from '../queue/job-queue.ts';
import { cachedCheck, checkFreeSpace, checkStaging } from '../staging/staging-check.ts';

/** Something that has to work for uploads to be accepted. */
export interface HealthCheck {
  name: 'queue' | 'staging' | 'room' | 'shared_staging' | 'audit';
  /** The error code for a check that does not respond. */
  timeoutCode: ErrorCode;
  /**
   * Explains to administrators how to fix the problem. Since it is public, it may mention settings but not
   * their values.
   */
  remedy: string;
  /** Whether uploads are accepted although the check fails. Default: false. */
  isHarmless?: boolean;
  /** Throws an error without confidential details. May be called often. */
  check(): Promise<void>;
}

const checkEveryMs = 1_000;

/**
 * Checks that uploads can be written to the directory and that there is enough space.
 *
 * @param requireAnswers Throws if uploads are refused because the disk does not respond.
 * @param everyMs Only for tests.
 */
export function stagingChecks(
  directory: string,
  {
    clock,
    requireAnswers = () => undefined,
    everyMs = checkEveryMs,
  }: { clock: Clock; requireAnswers?: () => void; everyMs?: number },
): HealthCheck[] {
  return [
    {
      name: 'staging',
      timeoutCode: 'staging_unavailable',
      remedy: 'check that server.staging.directory exists and that the daemon can write to it',
      check: cachedCheck(clock, everyMs, async () => {
        requireAnswers();
        await checkStaging(directory);
      }),
    },
    {
      name: 'room',
      timeoutCode: 'staging_unavailable',
      remedy: 'free space on the disk of server.staging.directory: uploads need at least 16 MiB',
      check: cachedCheck(clock, everyMs, () => checkFreeSpace(directory)),
    },
  ];
}

/**
 * Checks that the queue responds and is able to store runs.
 *
 * @param keeps Throws if the queue cannot store anything right now.
 */
export function queueCheck(
  queue: Pick<RunReader, 'depth'>,
  { remedy, keeps = () => undefined }: { remedy: string; keeps?: () => void | Promise<void> },
): HealthCheck {
  return {
    name: 'queue',
    timeoutCode: 'queue_unavailable',
    remedy,
    check: async () => {
      await keeps();
      await queue.depth();
    },
  };
}

/**
 * Checks that the audit trail can be written. Returns no check for a configuration without one.
 *
 * @param admitsActs Whether this process refuses acts that it cannot record, as `on_full` requires. A worker
 *   publishes what was accepted, and its records wait.
 */
export function auditChecks(
  settings: Pick<TrailSettings, 'onFull'> | null,
  { trail, clock, admitsActs }: { trail: Pick<Trail, 'check'>; clock: Clock; admitsActs: boolean },
): HealthCheck[] {
  if (settings === null) return [];
  return [
    {
      name: 'audit',
      timeoutCode: 'audit_unavailable',
      remedy: 'check that the disk of audit.directory has free space and that the daemon can write to it',
      isHarmless: !admitsActs || settings.onFull === 'continue',
      check: cachedCheck(clock, checkEveryMs, () => trail.check()),
    },
  ];
}
