import { WaybillError } from '../core/lib/errors.ts';
import type { RunRecord } from './generated/api-types.ts';

type Unknown = Record<string, unknown>;

/**
 * Validates a run record of a daemon, as far as callers rely on its fields. Throws `unexpected_answer` if one
 * is missing, because a broken or hostile daemon may send anything. Pure.
 */
export function parseRunRecord(body: unknown): RunRecord {
  const fault = isObject(body) ? faultOf(body) : 'the answer';
  if (fault === null) return body as RunRecord;
  throw new WaybillError('unexpected_answer', `the daemon's record of a run is not valid: ${fault}`, {
    hint: 'check the URL and the version of the daemon',
  });
}

/** The name of the first invalid field; null if there is none. */
function faultOf(record: Unknown): string | null {
  for (const name of ['run_id', 'pipeline_id', 'status', 'accepted_at'])
    if (typeof record[name] !== 'string') return name;
  if (!isTextOrNull(record['finished_at'])) return 'finished_at';
  if (record['progress'] !== null && !isObject(record['progress'])) return 'progress';
  if (!isErrorOrNull(record['error'])) return 'error';
  const destinations = record['destinations'];
  if (!Array.isArray(destinations)) return 'destinations';
  const wrong = destinations.findIndex((each) => !isObject(each) || !isErrorOrNull(each['error']));
  return wrong === -1 ? null : `destinations/${wrong}`;
}

function isErrorOrNull(error: unknown): boolean {
  if (error === null) return true;
  if (!isObject(error)) return false;
  const { code, message, hint, findings } = error;
  return (
    typeof code === 'string' &&
    typeof message === 'string' &&
    isTextOrNull(hint) &&
    Array.isArray(findings) &&
    findings.every(isObject)
  );
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string';
}

function isObject(value: unknown): value is Unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
