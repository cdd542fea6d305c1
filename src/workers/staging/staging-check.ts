import { randomUUID } from 'node:crypto';
import { mkdir, rm, statfs, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';

/** If there is less free space than this, in bytes, uploads are rejected. */
export const minFreeBytes = 16 * 1024 * 1024;

/**
 * Checks that files can be written to the directory, which is created if necessary. Throws
 * `staging_unavailable`, or `insufficient_storage` if the disk is full.
 */
export async function checkStaging(directory: string): Promise<void> {
  const probe = path.join(directory, `.waybill-probe-${randomUUID()}`);
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await writeFile(probe, 'probe', { flag: 'wx', mode: 0o600 }).finally(() => rm(probe, { force: true }));
  } catch (error) {
    throw stagingFailure(error);
  }
}

/**
 * Checks that there is enough free space for uploads on the directory's disk. If the directory does not exist
 * yet, uses its nearest parent that does. Throws `insufficient_storage` if there is not, and
 * `staging_unavailable` if the free space cannot be determined.
 */
export async function checkFreeSpace(directory: string): Promise<void> {
  try {
    if ((await freeBytes(directory)) < minFreeBytes) throw stagingFull();
  } catch (error) {
    throw stagingFailure(error);
  }
}

/**
 * Returns how many bytes are free on the directory's disk. If the directory does not exist yet, uses its
 * nearest parent that does. Throws system errors.
 */
export async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch (error) {
    const parent = path.dirname(directory);
    if (!isMissing(error) || parent === directory) throw error;
    return freeBytes(parent);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}

/**
 * Limits how often a check runs. `check` is called at most every `everyMs` milliseconds, and in between, its
 * last result is returned. While a new call is in progress, the last result is used until it is `2 * everyMs`
 * old. `limit` may end the wait for a call, but there is no second call before the first one ends, because
 * it could block another thread.
 */
export function cachedCheck(
  clock: Clock,
  everyMs: number,
  check: () => Promise<void>,
  limit = (checking: Promise<void>): Promise<void> => checking,
): () => Promise<void> {
  let last: CheckResult | null = null;
  let running: CheckResult | null = null;
  const begin = (at: number): CheckResult => {
    const checking = check();
    const result = { at, outcome: limit(checking) };
    const end = (): void => void ([last, running] = [result, null]);
    checking.then(end, end);
    return result;
  };
  return () => {
    const now = clock.monotonic();
    if (last !== null && now - last.at < everyMs) return last.outcome;
    running ??= begin(now);
    return (last !== null && now - last.at < 2 * everyMs ? last : running).outcome;
  };
}

const timeoutMs = 10_000;

/** Throws `staging_unavailable` if the check takes longer than ten seconds: a frozen disk never answers. */
export function withDiskTimeout(checking: Promise<void>, clock: Clock): Promise<void> {
  const outcome = new Promise<void>((resolve, reject) => {
    const timer = clock.timeout(timeoutMs, () => {
      const cause = new Error(`the disk has not answered for ${timeoutMs / 1000} s`);
      reject(unavailable(cause.message, cause));
    });
    checking.finally(() => timer.cancel()).then(resolve, reject);
  });
  // The callers may have left.
  outcome.catch(() => undefined);
  return outcome;
}

interface CheckResult {
  /** The time of the check, in milliseconds of the monotonic clock. */
  at: number;
  outcome: Promise<void>;
}

/**
 * Converts an error that happened during staging to one for the client: `insufficient_storage` if the disk is
 * full, and `staging_unavailable` if staging does not work. All other errors are returned as they are.
 */
export function stagingFailure(error: unknown): unknown {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (hasCode(cause, 'insufficient_storage') || hasCode(cause, 'staging_unavailable')) return cause;
    const code = 'code' in cause ? String(cause.code) : null;
    if (hasCode(cause, 'storage_full') || code === 'ENOSPC' || code === 'EDQUOT') return stagingFull(error);
    if (code !== null && 'syscall' in cause && 'path' in cause) return unavailable(code, error);
    if (cause instanceof WaybillError && cause.code.startsWith('storage_'))
      return unavailable(cause.code, error);
  }
  return error;
}

function stagingFull(cause?: unknown): WaybillError {
  return new WaybillError('insufficient_storage', 'the staging disk is full', {
    cause,
    hint: 'try again later',
  });
}

/** Mentions the reason, but not the path, since clients are not supposed to see it. Both are logged. */
function unavailable(reason: string, cause: unknown): WaybillError {
  return new WaybillError('staging_unavailable', `uploads cannot be staged: ${reason}`, {
    cause,
    hint: 'try again later; the log of the daemon has the details',
  });
}
