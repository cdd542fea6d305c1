import type { Clock } from '../../core/lib/clock.ts';
import { type ErrorCode, errorTable } from '../../core/lib/error-codes.ts';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { HealthCheck } from '../../workers/coordinator/health-checks.ts';
import { isConcealed } from '../http/answer/error-status.ts';

/** The state of something that the process depends on. Never contains local paths, addresses or secrets. */
export interface CheckReport {
  name: HealthCheck['name'] | 'process' | 'weather';
  /** `degraded` if something is wrong, but uploads are still accepted. */
  state: 'ok' | 'degraded' | 'failing';
  /** When a check first returned this state, in RFC 3339 (UTC). Checks only run on request. */
  since: string;
  /** The error and how to fix it. Absent if the state is `ok`. */
  code?: ErrorCode;
  detail?: string;
  hint?: string;
}

/** Checks whether the process can accept uploads. */
export interface Readiness {
  /** Runs all checks, waiting at most five seconds. Only rejects because of a bug. */
  look(): Promise<ReadinessFound>;
}

export interface ReadinessFound {
  checks: CheckReport[];
  /** The error of the first check that failed; null if uploads are accepted. */
  failure: WaybillError | null;
}

export interface ReadinessOptions {
  clock: Clock;
  log: Log;
  checks: readonly HealthCheck[];
  isDraining: () => boolean;
  /** null if no weather database is configured. */
  weatherHealth: { isHealthy(): boolean } | null;
}

const deadlineMs = 5_000;

/** The result of a check. `error` is null if it passed. */
interface CheckResult {
  name: CheckReport['name'];
  error: WaybillError | null;
  remedy: string;
  isHarmless?: boolean;
}

export function newReadiness({ clock, log, checks, isDraining, weatherHealth }: ReadinessOptions): Readiness {
  const known = new Map<CheckReport['name'], CheckReport>();
  const probes = checks.map((check) => probeOf(check, clock));
  const report = (found: CheckResult): CheckReport => {
    const before = known.get(found.name);
    const now = reportOf(found, before, clock);
    known.set(found.name, now);
    if (now.state !== (before?.state ?? 'ok')) logChange(log, now);
    return now;
  };
  return {
    look: async () => {
      if (isDraining()) {
        const error = new WaybillError(
          'shutting_down',
          'the process is stopping and accepts no new requests',
        );
        const remedy = 'wait until it has restarted';
        return { checks: [report({ name: 'process', error, remedy })], failure: error };
      }
      const found = await Promise.all(probes.map((probe) => probe()));
      const reports = found.map(report);
      if (weatherHealth !== null) reports.push(report(weatherFound(weatherHealth.isHealthy())));
      return { checks: reports, failure: found.find(isFailure)?.error ?? null };
    },
  };
}

/**
 * Wraps a check so that it returns by the deadline. If a check hangs, for example because a disk does not
 * respond, it is not started a second time: each attempt would block another thread of the file system pool.
 */
function probeOf(check: HealthCheck, clock: Clock): () => Promise<CheckResult> {
  const { name, timeoutCode, remedy, isHarmless } = check;
  let running: Promise<Pick<CheckResult, 'error'>> | undefined;
  return async () => {
    running ??= check
      .check()
      .then(
        () => ({ error: null }),
        (error: unknown) => ({ error: asWaybillError(error) }),
      )
      .finally(() => (running = undefined));
    const look = running;
    const outcome = await new Promise<Awaited<typeof look>>((resolve) => {
      const late = clock.timeout(deadlineMs, () =>
        resolve({ error: new WaybillError(timeoutCode, `no answer within ${deadlineMs / 1000} s`) }),
      );
      void look.then((found) => {
        late.cancel();
        resolve(found);
      });
    });
    return { name, remedy, isHarmless: isHarmless === true, ...outcome };
  };
}

function isFailure({ error, isHarmless }: CheckResult): boolean {
  return error !== null && isHarmless !== true;
}

function weatherFound(isHealthy: boolean): CheckResult {
  const error = isHealthy
    ? null
    : new WaybillError('database_unavailable', 'the weather database does not answer');
  const remedy = 'check that the database runs and is reachable from this host; publishing is not affected';
  return { name: 'weather', error, remedy, isHarmless: true };
}

function reportOf(
  { name, error, remedy, isHarmless }: CheckResult,
  before: CheckReport | undefined,
  clock: Clock,
): CheckReport {
  const state = error === null ? 'ok' : isHarmless === true ? 'degraded' : 'failing';
  const since = before?.state === state ? before.since : clock.now().toISOString();
  if (error === null) return { name, state, since };
  const { code, message } = error;
  const disclosed = isConcealed(code)
    ? { code: 'internal_error' as const, detail: errorTable.internal_error.about }
    : { code, detail: message };
  return { name, state, since, ...disclosed, hint: remedy };
}

function logChange(log: Log, { name, state, code, detail }: CheckReport): void {
  if (state === 'ok') log.info({ check: name }, 'a health check succeeds again');
  else log.warn({ check: name, state, code, detail }, 'a health check fails');
}
