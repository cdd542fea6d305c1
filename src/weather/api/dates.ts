/** Says which `Last-Modified` an answer may have. */
export interface Dates {
  /** `key` names the resource and its form. */
  of(key: string, etag: string, lastModified: Date | null, now: Date): Date | null;
}

const mostKnown = 2000;

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
      if (known.size > mostKnown && oldest !== undefined) known.delete(oldest);
      return isSafe && date < now.getTime() - 1000 ? new Date(date) : null;
    },
  };
}
