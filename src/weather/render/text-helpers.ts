import { timeZoneAt } from '../places/position.ts';
import { middleOf } from '../shape.ts';
import type { Geometry, UnknownPart, UnknownReason } from '../values.ts';

const points = 'N NNE NE ENE E ESE SE SSE S SSW SW WSW W WNW NW NNW'.split(' ');
const unknown = '--';

/** The helper functions for text templates. All of them accept null, and return `--` for it. */
export const textHelpers = { num, time, compass, wrap, list, upper, row, zoneOf, weather, wind, why };

/**
 * Formats a number and its unit, if there is one. `digits` is the number of decimals; by default, there are
 * as many as necessary.
 */
function num(value: number | null | undefined, unit = '', digits?: number): string {
  if (value === null || value === undefined) return unknown;
  const figure = digits === undefined ? String(value) : value.toFixed(digits);
  return unit === '' || unit === '%' ? figure + unit : `${figure} ${unit}`;
}

/**
 * Formats a time in a time zone, in one of these styles: `full` Tue 20 Jan 2026 12:51 EST, `row` Tue 20 Jan
 * 12:51 EST, `date` Tue 20 Jan 2026, `short` Tue 12:51, `hour` 12:51.
 */
function time(
  instant: string | null | undefined,
  timeZone: string | null = 'UTC',
  style: 'full' | 'row' | 'date' | 'short' | 'hour' = 'full',
): string {
  if (instant === null || instant === undefined) return unknown;
  const parts = Object.fromEntries(
    formatOf(timeZone ?? 'UTC')
      .formatToParts(new Date(instant))
      .map(({ type, value }) => [type, value]),
  );
  const hour = `${parts['hour']}:${parts['minute']}`;
  if (style === 'hour') return hour;
  if (style === 'short') return `${parts['weekday']} ${hour}`;
  if (style === 'row')
    return `${parts['weekday']} ${parts['day']} ${parts['month']} ${hour} ${parts['timeZoneName']}`;
  const date = `${parts['weekday']} ${parts['day']} ${parts['month']} ${parts['year']}`;
  return style === 'date' ? date : `${date} ${hour} ${parts['timeZoneName']}`;
}

/** Converts degrees to one of the 16 points of the compass. */
function compass(degrees: number | null | undefined): string {
  if (degrees === null || degrees === undefined) return unknown;
  return points[Math.round(degrees / 22.5) % 16] ?? unknown;
}

interface Phenomenon {
  intensity: string | null;
  modifier: string | null;
  phenomenon: string;
  inVicinity: boolean;
}

/**
 * Describes the weather in an observation in words: `Light freezing rain, fog in the vicinity`. Prefers the
 * observation's own text.
 */
function weather(
  sky: { textDescription: string | null; presentWeather: readonly Phenomenon[] } | null | undefined,
): string {
  const text = sky?.textDescription?.trim() ?? '';
  if (text !== '') return text;
  const words = (sky?.presentWeather ?? []).map(({ intensity, modifier, phenomenon, inVicinity }) =>
    [intensity, modifier, phenomenon, inVicinity ? 'in the vicinity' : null]
      .filter((word) => word !== null && word !== '')
      .join(' '),
  );
  const joined = words.join(', ').replaceAll('_', ' ');
  return joined === '' ? unknown : joined.charAt(0).toUpperCase() + joined.slice(1);
}

/** Describes wind: `NNW 6.8 mph`, `variable 6.8 mph` or `calm`. */
function wind(
  each: { windDirection: number | null; windSpeed: number | null; windGust: number | null },
  show: (value: number | null) => string,
): string {
  if (each.windSpeed === null) return each.windGust === null ? unknown : `gusts ${show(each.windGust)}`;
  if (each.windSpeed === 0) return 'calm';
  const from = each.windDirection === null ? 'variable' : compass(each.windDirection);
  return `${from} ${show(each.windSpeed)}${each.windGust === null ? '' : `, gusts ${show(each.windGust)}`}`;
}

const reasons: Readonly<Record<UnknownReason, string>> = {
  not_received: 'it has not arrived',
  predictability_too_low: 'predictability is too low',
  unreadable: 'a part of it cannot be read',
  unplaced: 'an outline is missing',
  stale: 'it is stale',
  not_covered: 'it does not cover this place',
};

/** Says in words why a part of the record is unknown. Returns null if it is known. */
function why(meta: { unknown?: readonly UnknownPart[] } | null | undefined, field: string): string | null {
  const part = meta?.unknown?.find((one) => one.field === field);
  return part === undefined ? null : reasons[part.reason];
}

/**
 * Wraps text to a maximum of `width` characters per line, including the `indent`. Paragraphs and tables are
 * kept as they are. If a word is too long, it gets its own line.
 */
function wrap(text: string | null | undefined, width = 80, indent = ''): string {
  if (text === null || text === undefined) return indent + unknown;
  const paragraphs = text.trim().split(/\n[ \t]*\n\s*/);
  return paragraphs
    .map((paragraph) => (isTable(paragraph) ? kept(paragraph, indent) : fill(paragraph, width, indent)))
    .join('\n\n');
}

/**
 * Recognizes tables by their columns: two or more lines have a tab, or at least three spaces, between words.
 */
function isTable(paragraph: string): boolean {
  return paragraph.split('\n').filter((line) => /\S(?: {3,}|\t+)\S/.test(line)).length >= 2;
}

function kept(paragraph: string, indent: string): string {
  return paragraph
    .split('\n')
    .map((line) => indent + line.trimEnd())
    .join('\n');
}

/** Every list item begins on a new line. If it needs more lines, they are indented. */
function fill(paragraph: string, width: number, indent: string): string {
  return paragraph
    .trim()
    .split(/\n(?=\s*(?:[*•-]|\d+[.)])\s)/)
    .map((item) => fillItem(item, width, indent))
    .join('\n');
}

function fillItem(item: string, width: number, indent: string): string {
  const [bullet = ''] = /^(?:[*•-]|\d+[.)])\s/.exec(item.trim()) ?? [];
  const hanging = indent + ' '.repeat(bullet.length);
  const lines: string[] = [];
  let line = indent;
  for (const word of item.trim().split(/\s+/)) {
    if (line.trim() !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = hanging;
    }
    line += line.trim() === '' ? word : ` ${word}`;
  }
  return [...lines, line].join('\n');
}

/**
 * Arranges cells in columns of the given widths. If the width is negative, the text is right-aligned. If it
 * is too long, it continues in the same column on the next line.
 */
function row(...cells: [text: string, width: number][]): string {
  const columns = cells.map(([text, width]) => ({ lines: within(text, Math.abs(width)), width }));
  const height = Math.max(...columns.map(({ lines }) => lines.length));
  return Array.from({ length: height }, (_, index) =>
    columns
      .map(({ lines, width }) => {
        const line = lines[index] ?? '';
        return width < 0 ? line.padStart(-width) : line.padEnd(width);
      })
      .join(' ')
      .trimEnd(),
  ).join('\n');
}

function within(text: string, width: number): string[] {
  return fill(text.trim(), width, '')
    .split('\n')
    .flatMap((line) => line.match(new RegExp(`.{1,${width}}`, 'gu')) ?? ['']);
}

function list(items: readonly unknown[] | null | undefined, separator = ', '): string {
  if (items === null || items === undefined || items.length === 0) return unknown;
  return items.map(String).join(separator);
}

function upper(text: string | null | undefined): string {
  return text === null || text === undefined ? unknown : text.toUpperCase();
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      weekday: 'short',
      day: '2-digit',
      month: 'short',
      year: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'short',
    });
    formats.set(timeZone, format);
  }
  return format;
}

/**
 * The time zone that most of each state or marine area is in. These areas are the first two letters of UGC
 * codes.
 */
const areas: Readonly<Record<string, string>> = {
  'America/New_York':
    'CT DC DE FL GA IN KY MA MD ME MI NC NH NJ NY OH PA RI SC VA VT WV AN AM LE LO LH LC SL',
  'America/Chicago': 'AL AR IA IL KS LA MN MO MS ND NE OK SD TN TX WI GM LM LS',
  'America/Denver': 'CO ID MT NM UT WY',
  'America/Phoenix': 'AZ',
  'America/Los_Angeles': 'CA NV OR WA PZ',
  'America/Anchorage': 'AK PK',
  'Pacific/Honolulu': 'HI PH',
  'Pacific/Pago_Pago': 'AS PS',
  'Pacific/Guam': 'GU MP PM FM MH PW',
  'America/Puerto_Rico': 'PR VI',
};
const byArea = new Map(
  Object.entries(areas).flatMap(([zone, names]) => names.split(' ').map((name) => [name, zone] as const)),
);

/**
 * Returns the time zone in the middle of the outline. If there is no outline, or its middle is at sea,
 * returns the time zone of the first UGC code, or UTC if that is unknown. Only precise enough for display.
 */
export function zoneOf(
  zones: readonly string[] | null | undefined,
  geometry: Geometry | null | undefined = null,
): string {
  return zoneWithin(geometry) ?? byArea.get(zones?.[0]?.slice(0, 2) ?? '') ?? 'UTC';
}

function zoneWithin(geometry: Geometry | null | undefined): string | null {
  const middle = middleOf(geometry);
  if (middle === null) return null;
  const zone = timeZoneAt(middle.latitude, middle.longitude);
  return zone.startsWith('Etc/') ? null : zone;
}
