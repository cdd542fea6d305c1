import type { Rejection } from '../database/cleaner.ts';
import type { NextPage, Reading } from '../family.ts';
import type { AnswerMeta, RejectedFields } from '../render/formats.ts';
import { instant } from '../values.ts';

/**
 * Reports whether data is out of date. `staleAt` is in milliseconds since the epoch, or null if the data
 * never goes out of date.
 */
export function isStale(staleAt: number | null, now: Date): boolean {
  return staleAt !== null && now.getTime() >= staleAt;
}

/** Returns the `meta` member of a response, or null if it would be empty. */
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
 * Returns the `Link` header (RFC 8288) for the next page: the same query in the same format, but for another
 * range. The URL is relative, so it works behind any proxy.
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

/** Decides on the `Last-Modified` date of responses. */
export interface Dates {
  /** `key` identifies the resource and its format. Returns null if there is no safe date. */
  of(key: string, etag: string, lastModified: Date | null, now: Date): Date | null;
}

const maxKnown = 2000;

/**
 * A date must only be sent if no other content of the resource has ever had the same date. However, rows can
 * change without their date changing, and HTTP dates are in whole seconds. A response therefore gets no date
 * if the content has changed since an earlier response with this date or a later one. It also gets none until
 * the second of the date is over, because the content may change again until then.
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
