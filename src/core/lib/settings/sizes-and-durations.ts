/** Parses durations and sizes from the configuration and the command line. Formats them for people. */

const durationForm = /^(\d{1,16})(ms|s|m|h|d)$/;
const sizeForm = /^(\d{1,16})(B|kB|KB|KiB|MB|MiB|GB|GiB|TB|TiB)?$/;

const amountForm = /^(\d{1,9})(%)?$/;

/** The same as regular expressions without flags, for use in schemas. */
export const durationPattern = durationForm.source;
export const sizePattern = sizeForm.source;
export const amountPattern = amountForm.source;

const durationUnits = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

const sizeUnits = {
  B: 1,
  kB: 1e3,
  KB: 1e3,
  KiB: 2 ** 10,
  MB: 1e6,
  MiB: 2 ** 20,
  GB: 1e9,
  GiB: 2 ** 30,
  TB: 1e12,
  TiB: 2 ** 40,
} as const;

/**
 * Parses `500ms`, `30s`, `15m`, `24h` or `7d`: an integer and a unit, without a space. Returns milliseconds,
 * or undefined if it is anything else or too large for a safe integer.
 */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = durationForm.exec(text) ?? [];
  if (count === undefined) return undefined;
  return safe(Number(count) * durationUnits[unit as keyof typeof durationUnits]);
}

/**
 * Parses `512MiB`, `2GB`, `10KiB`, `1024` or the number 1024. Returns bytes, or undefined if it is anything
 * else or too large for a safe integer. The units `KiB MiB GiB TiB` are powers of 1024, and `kB KB MB GB TB`
 * are powers of 1000.
 */
export function parseSize(value: string | number): number | undefined {
  if (typeof value === 'number') return value >= 0 ? safe(value) : undefined;
  const [, count, unit = 'B'] = sizeForm.exec(value) ?? [];
  if (count === undefined) return undefined;
  return safe(Number(count) * sizeUnits[unit as keyof typeof sizeUnits]);
}

/** How many items, either as a number or as a percentage. */
export type Amount = { count: number } | { percent: number };

/** Parses `100`, `"100"` or `"20%"`. Returns undefined if it is anything else. */
export function parseAmount(value: string | number): Amount | undefined {
  const [, digits, percent] = amountForm.exec(String(value)) ?? [];
  if (digits === undefined) return undefined;
  if (percent === undefined) return { count: Number(digits) };
  return Number(digits) <= 100 ? { percent: Number(digits) } : undefined;
}

/** Returns how many out of `total` items are allowed. A percentage is rounded down, so `20%` of 9 is 1. */
export function resolveShare(amount: Amount, total: number): number {
  return 'count' in amount ? amount.count : Math.floor((total * amount.percent) / 100);
}

export function formatAmount(amount: Amount): string {
  return 'count' in amount ? `${amount.count}` : `${amount.percent}%`;
}

/** Formats a number of bytes for people, with one decimal at most: `512 MiB`, `1.5 GiB`, `17 B`. */
export function formatSize(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let value = Math.abs(bytes);
  let unit = 0;
  // From here on, one decimal would show as 1024 of the smaller unit.
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${bytes < 0 ? '-' : ''}${Number(value.toFixed(unit === 0 ? 0 : 1))} ${units[unit] ?? 'B'}`;
}

/** Formats milliseconds for people, using no more than two units: `24h`, `1h 30m`, `2.5s`, `340ms`. */
export function formatDuration(ms: number): string {
  const sign = ms < 0 ? '-' : '';
  const whole = Math.round(Math.abs(ms));
  if (whole < 1000) return `${sign}${whole}ms`;
  if (whole < 10_000) return `${sign}${Number((whole / 1000).toFixed(1))}s`;
  // Round to the smaller of the two units first, so that 59.9996 s turns into 1m and not 60s.
  const step =
    whole < durationUnits.h ? durationUnits.s : whole < durationUnits.d ? durationUnits.m : durationUnits.h;
  let rest = Math.round(whole / step) * step;
  const parts: string[] = [];
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    const count = Math.floor(rest / durationUnits[unit]);
    rest -= count * durationUnits[unit];
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return sign + parts.slice(0, 2).join(' ');
}

function safe(value: number): number | undefined {
  return Number.isSafeInteger(value) ? value : undefined;
}
