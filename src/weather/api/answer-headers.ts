import type { Rejection } from '../database/cleaner.ts';
import type { NextPage, Reading } from '../family.ts';
import type { AnswerMeta, RejectedFields } from '../render/formats.ts';
import { instant } from '../values.ts';

/** Milliseconds since the epoch from which data is stale; null where there is none. Pure. */
export function isStale(staleAt: number | null, now: Date): boolean {
  return staleAt !== null && now.getTime() >= staleAt;
}

/** `meta` of an answer; null if there is nothing to report. Pure. */
export function asOfMeta(reading: Reading<object>, stale: boolean): AnswerMeta | null {
  const { asOf, rejected = [], resolved, unknown = [], otherIssues = [], newerIssuedAt } = reading;
  const meta: AnswerMeta = {
    ...(stale ? { stale } : {}),
    ...(stale && asOf !== undefined ? { asOf: instant(asOf) } : {}),
    ...(resolved === undefined ? {} : { resolved }),
    ...(unknown.length === 0 ? {} : { unknown }),
    ...(otherIssues.length === 0 ? {} : { otherIssues }),
    ...(newerIssuedAt === undefined ? {} : { newerIssuedAt }),
    ...(rejected.length === 0 ? {} : { rejected: counted(rejected) }),
  };
  return Object.keys(meta).length === 0 ? null : meta;
}

function counted(rejected: readonly Rejection[]): RejectedFields[] {
  const counts = new Map<string, RejectedFields>();
  for (const { field, reason } of rejected) {
    const name = `${field} ${reason}`;
    const count = (counts.get(name)?.count ?? 0) + 1;
    counts.set(name, { field, reason, count });
  }
  return [...counts.keys()].sort().flatMap((name) => counts.get(name) ?? []);
}

/**
 * The `Link` (RFC 8288) to the next page, relative to the request, so that it holds behind every proxy:
 * everything as it was asked, in the form of this answer, with another range. Pure.
 */
export function linkToNext(query: object, format: string, { start, end }: NextPage): string {
  const next: Record<string, unknown> = {
    ...query,
    start: start.toISOString(),
    end: end.toISOString(),
    format,
  };
  const given = Object.entries(next).filter(([, value]) => value !== null);
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
  return `<?${search.toString()}>; rel="next"`;
}

/** Says which `Last-Modified` an answer may have. */
export interface Dates {
  /** `key` names the resource and its form. */
  of(key: string, etag: string, lastModified: Date | null, now: Date): Date | null;
}

const maxKnown = 2000;

/**
 * A date is no validator where other bytes had the same: rows may be changed without their date, and dates
 * are whole seconds. So an answer has none if it changed since an answer that had this date or a later one,
 * and none within the second in which more may happen.
 */
export function newDates(): Dates {
  const known = new Map<string, { etag: string; date: number; isSafe: boolean }>();
  return {
    of(key, etag, lastModified, now) {
      if (lastModified === null) return null;
      const date = Math.floor(lastModified.getTime() / 1000) * 1000;
      const before = known.get(key);
      const isSame = before?.etag === etag && before.date === date;
      const isSafe = isSame ? before.isSafe : before === undefined || before.date < date;
      known.delete(key);
      known.set(key, { etag, date: isSafe ? date : Math.max(date, before?.date ?? date), isSafe });
      const [oldest] = known.keys();
      if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
      return isSafe && date < now.getTime() - 1000 ? new Date(date) : null;
    },
  };
}
