import { expects, textOrNumber } from './kinds.ts';
import type { Setting } from './setting.ts';
import { formatSize, parseSize, sizePattern } from './sizes-and-durations.ts';

/*
 * Parses and formats transfer rates, in bytes per second.
 */

/** Anything lower must be a mistake, such as `2` when 2 MiB was meant. */
const minRate = 1024;

export const rateForm = 'a rate of at least 1KiB/s, such as 2MiB/s, 500KiB or 65536 (bytes per second)';

/**
 * Parses `2MiB/s`, `500KiB` or 65536. Returns bytes per second, or undefined if it is anything else or less
 * than 1 KiB/s.
 */
export function parseRate(value: string | number): number | undefined {
  const bytes = parseSize(typeof value === 'number' ? value : value.replace(/\/s$/, ''));
  return bytes !== undefined && bytes >= minRate ? bytes : undefined;
}

/** Formats a transfer rate, as in `2 MiB/s`. */
export function formatRate(bytesPerSecond: number): string {
  return `${formatSize(bytesPerSecond)}/s`;
}

export function rate(): Setting<string | number, false, number> {
  const pattern = sizePattern.replace(/\$$/, '(?:/s)?$');
  const isOne = (value: string): boolean => parseRate(value) !== undefined;
  return expects(textOrNumber(pattern, isOne, { min: minRate, max: null }), rateForm, {
    title: 'rate',
    isNumeric: true,
    resolve: (value: string | number) => parseRate(value) ?? 0,
  });
}
