import type { Clock } from '../../../core/clock.ts';
import type { ReloadReport } from '../../../core/config/reload.ts';
import { errorTable, WaybillError, type ErrorCode } from '../../../core/errors.ts';
import type { Finding } from '../../../core/finding.ts';

const patienceMs = 60_000;

/**
 * Asks the daemon at `url`, which ends with `/`, to reload. Throws what it refuses with, by its code and with
 * its findings, and `daemon_unreachable` if no daemon answers within a minute.
 */
export async function askForReload({
  url,
  token,
  clock,
}: {
  url: string;
  token: string;
  clock: Clock;
}): Promise<ReloadReport> {
  const tooLate = new AbortController();
  const timer = clock.timeout(patienceMs, () => tooLate.abort());
  try {
    const response = await fetch(`${url}v1/reload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, accept: 'application/json' },
      redirect: 'error',
      signal: tooLate.signal,
    });
    const body = parsed(await response.text());
    if (response.status === 200 && isReport(body)) return reportOf(body);
    if (isProblem(body)) throw problem(body);
    throw new TypeError(`it answered ${response.status}, and not as a daemon does`);
  } catch (cause) {
    if (cause instanceof WaybillError) throw cause;
    throw new WaybillError(
      'daemon_unreachable',
      `no daemon answers at ${url}: ${whyOf(cause, tooLate.signal)}`,
      {
        cause,
        hint: 'is it running, with this server.http.listen? --url names another address; SIGHUP needs none',
      },
    );
  } finally {
    timer.cancel();
  }
}

/** Undefined if it is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Report = Omit<ReloadReport, 'restartNeeded'> & { restart_needed: string[] };

interface Problem {
  code: ErrorCode;
  detail: string;
  findings?: Finding[];
}

function isReport(body: unknown): body is Report {
  const lists = ['added', 'changed', 'removed', 'restart_needed', 'warnings'];
  return isObject(body) && lists.every((name) => Array.isArray(body[name]));
}

function reportOf({
  added,
  changed,
  removed,
  restart_needed: restartNeeded,
  warnings,
}: Report): ReloadReport {
  return { added, changed, removed, restartNeeded, warnings };
}

function isProblem(body: unknown): body is Problem {
  return (
    isObject(body) && typeof body['detail'] === 'string' && Object.hasOwn(errorTable, String(body['code']))
  );
}

function problem({ code, detail, findings = [] }: Problem): WaybillError {
  return new WaybillError(code, detail, { findings });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function whyOf(cause: unknown, tooLate: AbortSignal): string {
  if (tooLate.aborted) return `nothing came within ${patienceMs / 1000} s`;
  if (!(cause instanceof Error)) return String(cause);
  // `fetch failed` says nothing; its cause does.
  return cause.cause instanceof Error ? cause.cause.message : cause.message;
}
