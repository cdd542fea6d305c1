const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

/** How the times of a sample are moved. */
export interface Move {
  /** The sample's own time, RFC 3339. */
  from: string;
  /**
   * `days` moves by whole days, at most to now, and keeps the times of day that a forecast is for; it was
   * made ten minutes ago. `minutes` moves everything to ten minutes ago.
   */
  by: 'days' | 'minutes';
}

/**
 * Returns a document of NWS or SPC as if it had been issued now: moves RFC 3339 times and those of VTEC
 * codes, outlooks and METAR, and names the weekdays of forecast periods again.
 */
export function asOfNow(text: string, { from, by }: Move, now: Date): string {
  const age = now.getTime() - Date.parse(from);
  const shift = by === 'days' ? Math.floor(age / dayMs) * dayMs : age - 10 * minuteMs;
  const recently = new Date(now.getTime() - 10 * minuteMs).toISOString();
  const moved = (date: string, time: string): string =>
    new Date(Date.parse(`${date}T${time}Z`) + shift).toISOString();
  /** The digits of year, month, day, hour and minute. */
  const digitsOf = (date: string, hour: string, minute: string): string =>
    moved(date, `${hour}:${minute}`).slice(0, 16).replace(/\D/g, '');
  return (
    text
      // The offset stays, so that the local time moves as if it were UTC.
      .replace(
        /(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)/g,
        (_, date: string, time: string, offset: string) => `${moved(date, time).slice(0, 19)}${offset}`,
      )
      // VTEC; a year of 00 means that there is no time.
      .replace(
        /(?!00)(\d\d)(\d\d)(\d\d)T(\d\d)(\d\d)Z/g,
        (_, year: string, month: string, day: string, hour: string, minute: string) => {
          const digits = digitsOf(`20${year}-${month}-${day}`, hour, minute);
          return `${digits.slice(2, 8)}T${digits.slice(8)}Z`;
        },
      )
      // Outlooks.
      .replace(
        /"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)"/g,
        (_, year: string, month: string, day: string, hour: string, minute: string) =>
          `"${digitsOf(`${year}-${month}-${day}`, hour, minute)}"`,
      )
      // METAR, in the month of the sample.
      .replace(
        /(\b[A-Z]{4} )(\d\d)(\d\d)(\d\d)Z /g,
        (_, station: string, day: string, hour: string, minute: string) =>
          `${station}${digitsOf(`${from.slice(0, 8)}${day}`, hour, minute).slice(6)}Z `,
      )
      .replace(/("(?:generatedAt|updateTime)": *")[^"]+/g, (made, name: string) =>
        by === 'days' ? `${name}${recently}` : made,
      )
      // Periods of a forecast.
      .replace(
        /("name": *")(?!Today)\w+day((?: Night)?",\s*"startTime": *")(\d{4}-\d\d-\d\d)/g,
        (_, before: string, between: string, date: string) => `${before}${weekdayOf(date)}${between}${date}`,
      )
  );
}

function weekdayOf(date: string): string {
  return new Date(`${date}T12:00:00Z`).toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' });
}
