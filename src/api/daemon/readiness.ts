import type { Clock } from '../../core/lib/clock.ts';
import { type ErrorCode, errorTable } from '../../core/lib/error-codes.ts';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { HealthCheck } from '../../workers/coordinator/health-checks.ts';
import { isConcealed } from '../http/answer/error-status.ts';

/** How one thing stands that the process depends on. Holds no path of this machine, no address, no secret. */
export interface CheckReport {
  name: HealthCheck['name'] | 'process' | 'weather';
  /** `degraded`: something is missing, and uploads are taken all the same. */
  state: 'ok' | 'degraded' | 'failing';
  /** When it was first seen in this state, RFC 3339 in UTC. Nobody looks but who asks. */
  since: string;
  /** What happened, and what an operator does about it; absent if it is `ok`. */
  code?: ErrorCode;
  detail?: string;
  hint?: string;
}

/** Whether uploads are taken, and why not. */
export interface Readiness {
  /** Looks at everything, for five seconds at most. Rejects only for a defect. */
  look(): Promise<ReadinessFound>;
}

export interface ReadinessFound {
  checks: CheckReport[];
  /** What the first failing check threw; null if uploads are taken. */
  failure: WaybillError | null;
}

export interface ReadinessOptions {
  clock: Clock;
  log: Log;
  checks: readonly HealthCheck[];
  /** Whether the process is shutting down. */
  isDraining: () => boolean;
  /** Null if no weather database is configured. */
  weatherPulse: { isUp(): boolean } | null;
}

const deadlineMs = 5_000;

/** What a check has found; `error` is null if all is well. */
interface Found {
  name: CheckReport['name'];
  error: WaybillError | null;
  remedy: string;
  isHarmless?: boolean;
}

export function newReadiness({ clock, log, checks, isDraining, weatherPulse }: ReadinessOptions): Readiness {
  const known = new Map<CheckReport['name'], CheckReport>();
  const probes = checks.map((check) => probeOf(check, clock));
  const report = (found: Found): CheckReport => {
    const before = known.get(found.name);
    const now = reportOf(found, before, clock);
    known.set(found.name, now);
    if (now.state !== (before?.state ?? 'ok')) logChange(log, now);
    return now;
  };
  return {
    look: async () => {
      if (isDraining()) {
        const error = new WaybillError('shutting_down', 'the process is stopping and takes nothing new');
        const remedy = 'wait for its next start';
        return { checks: [report({ name: 'process', error, remedy })], failure: error };
      }
      const found = await Promise.all(probes.map((probe) => probe()));
      const reports = found.map(report);
      if (weatherPulse !== null) reports.push(report(weatherFound(weatherPulse.isUp())));
      return { checks: reports, failure: found.find(isFailure)?.error ?? null };
    },
  };
}

/**
 * One look at a check, which does not wait longer than the deadline. A look that hangs, as on a disk that
 * does not answer, is not begun again: each would take a thread of the pool for file systems.
 */
function probeOf(check: HealthCheck, clock: Clock): () => Promise<Found> {
  const { name, silent, remedy } = check;
  let running: Promise<Pick<Found, 'error' | 'isHarmless'>> | undefined;
  return async () => {
    running ??= check
      .prove()
      .then(async () => (await check.lacking?.()) ?? null)
      .then(
        (error) => ({ error, isHarmless: true }),
        (error: unknown) => ({ error: asWaybillError(error) }),
      )
      .finally(() => (running = undefined));
    const look = running;
    const outcome = await new Promise<Awaited<typeof look>>((resolve) => {
      const late = clock.timeout(deadlineMs, () =>
        resolve({ error: new WaybillError(silent, `no answer within ${deadlineMs / 1000} s`) }),
      );
      void look.then((found) => {
        late.cancel();
        resolve(found);
      });
    });
    return { name, remedy, ...outcome };
  };
}

function isFailure({ error, isHarmless }: Found): boolean {
  return error !== null && isHarmless !== true;
}

function weatherFound(isUp: boolean): Found {
  const error = isUp
    ? null
    : new WaybillError('database_unavailable', 'the weather database does not answer');
  const remedy = 'see that the database runs and is reached from this host; publishing goes on without it';
  return { name: 'weather', error, remedy, isHarmless: true };
}

function reportOf(
  { name, error, remedy, isHarmless }: Found,
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
