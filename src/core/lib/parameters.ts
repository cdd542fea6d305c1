import { dateOf, parseInstant } from './instant.ts';
import { channelForm, isChannelName, parseRelativePath } from './paths.ts';

/** A JSON Schema, draft 2020-12. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * Describes a parameter that is passed as a string: its documentation, and how to turn it into a value. The
 * HTTP API uses this for query parameters (`api/http/query-parameters.ts`).
 */
export interface Parameter<T> {
  description: string;
  schema: JsonSchema;
  example?: unknown;
  /** The value to use if the parameter is missing. */
  absent: T;
  /** Parses a string, which may be empty. Returns undefined if it is invalid. */
  parse: (text: string) => T | undefined;
  /** Describes a valid value, in words that follow `must be`. */
  expected: string;
  /**
   * Returns a hint to add to the message about an invalid value. Returns null if it is not clear what the
   * caller wanted.
   */
  hint?: (text: string) => string | null;
  /** Refuse requests that do not have the parameter. */
  isRequired?: true;
  /** The parameter is in the path and not in the query. */
  isInPath?: true;
}

export type ParameterMap = Readonly<Record<string, Parameter<unknown>>>;

export type ValuesOf<P extends ParameterMap> = {
  [Name in keyof P]: P[Name] extends Parameter<infer T> ? T : never;
};

/**
 * Checks parameters against each other. If a rule is broken, returns the name of a parameter that breaks it,
 * and the rest of a sentence about it; otherwise, returns null. `values` contains the parsed values. If a
 * parameter is missing or invalid, its value there is `absent`.
 */
export type Rule = (
  usedNames: ReadonlySet<string>,
  values: Readonly<Record<string, unknown>>,
) => { name: string; message: string } | null;

/** No more than one of these parameters may be used. */
export function atMostOneOf(...names: string[]): Rule {
  return (usedNames) => {
    const [first, second] = names.filter((name) => usedNames.has(name));
    if (first === undefined || second === undefined) return null;
    return { name: second, message: `cannot be combined with "${first}": choose one of ${names.join(', ')}` };
  };
}

/** `name` may only be used along with `other`. */
export function onlyWith(name: string, other: string): Rule {
  return (usedNames) =>
    usedNames.has(name) && !usedNames.has(other) ? { name, message: `needs "${other}"` } : null;
}

type ParameterText = Pick<Parameter<never>, 'description' | 'example'>;

/** An identifier in upper or lower case, which becomes uppercase; null if missing. */
export function identifier(
  pattern: RegExp,
  expected: string,
  about: ParameterText,
): Parameter<string | null> {
  return {
    ...about,
    schema: { type: 'string', pattern: anyCase(pattern) },
    absent: null,
    expected,
    parse: (text) => {
      const upper = text.toUpperCase();
      return pattern.test(upper) ? upper : undefined;
    },
  };
}

/** Up to `max` identifiers, separated by commas. Duplicates are removed. Empty if missing. */
export function identifiers(
  pattern: RegExp,
  max: number,
  one: string,
  about: ParameterText,
): Parameter<readonly string[]> {
  return listOf({ max, expected: `${one}, or up to ${max} of them separated by commas`, ...about }, (item) =>
    pattern.test(item.toUpperCase()) ? item.toUpperCase() : undefined,
  );
}

/** Any of these values in upper or lower case, separated by commas. Empty if missing. */
export function choices<const T extends string>(
  values: readonly T[],
  about: ParameterText,
): Parameter<readonly T[]> {
  return listOf(
    { max: values.length, expected: `any of ${values.join(', ')}, separated by commas`, ...about },
    (item) => values.find((value) => value.toLowerCase() === item.toLowerCase()),
  );
}

/** Up to `max` names, separated by commas, with up to `maxChars` characters each. Empty if missing. */
export function names(max: number, maxChars: number, about: ParameterText): Parameter<readonly string[]> {
  return listOf(
    { max, expected: `up to ${max} names of up to ${maxChars} characters, separated by commas`, ...about },
    (item) => (item.length <= maxChars && !item.includes('\0') ? item : undefined),
  );
}

/** Exactly one of these values. Case matters. */
export function choice<const T extends string, const A extends T | null>(
  values: readonly T[],
  absent: A,
  about: ParameterText,
): Parameter<T | A> {
  return {
    ...about,
    schema: { type: 'string', enum: values, ...(absent === null ? {} : { default: absent }) },
    absent,
    expected: `one of ${values.filter((value) => value !== '').join(', ')}`,
    parse: (text) => values.find((value) => value === text),
  };
}

/** Any text with up to `maxChars` UTF-16 code units, including none; null if missing. */
export function freeText(maxChars: number, about: ParameterText): Parameter<string | null> {
  return {
    ...about,
    schema: { type: 'string', maxLength: maxChars },
    absent: null,
    expected: `at most ${maxChars} characters long`,
    parse: (text) => (text.length <= maxChars ? text : undefined),
  };
}

/** Text with up to `maxChars` UTF-16 code units that is not blank; null if missing. */
export function words(maxChars: number, about: ParameterText): Parameter<string | null> {
  return {
    ...about,
    schema: { type: 'string', minLength: 1, maxLength: maxChars },
    absent: null,
    expected: `some text of at most ${maxChars} characters`,
    parse: (text) => (text.trim() === '' || text.length > maxChars ? undefined : text.trim()),
  };
}

/** A point in time, cut off after milliseconds; null if missing. */
export function moment(about: ParameterText): Parameter<Date | null> {
  return {
    ...about,
    schema: { type: 'string', format: 'date-time' },
    absent: null,
    expected: 'a moment with its zone (RFC 3339), such as 2026-01-20T18:00:00Z',
    parse: (text) => {
      const verdict = parseInstant(text.trim());
      return verdict.ok ? dateOf(verdict.value) : undefined;
    },
    // A plus sign that was not encoded arrives as a space.
    hint: (text) => (/ \d\d:\d\d$/.test(text) ? 'write %2B for the + of a zone' : null),
  };
}

/**
 * The start or end of a period; null if missing. A date stands for the whole day, in UTC: `since` that date
 * starts with its first millisecond, and `until` that date ends with its last.
 */
export function periodBound(bound: 'since' | 'until', about: ParameterText): Parameter<Date | null> {
  const time = bound === 'since' ? '00:00:00.000Z' : '23:59:59.999Z';
  const exact = moment(about);
  return {
    ...exact,
    schema: { type: 'string', anyOf: [{ format: 'date-time' }, { format: 'date' }] },
    expected:
      'a date, such as 2026-01-20, or a moment with its zone (RFC 3339), such as 2026-01-20T18:00:00Z',
    parse: (text) => exact.parse(/^\s*\d{4}-\d\d-\d\d\s*$/.test(text) ? `${text.trim()}T${time}` : text),
  };
}

/** An integer from `min` to `max`, in decimal digits without a sign. */
export function wholeNumber(
  min: number,
  max: number,
  absent: number,
  about: ParameterText,
): Parameter<number> {
  return {
    ...about,
    schema: { type: 'integer', minimum: min, maximum: max, default: absent },
    absent,
    expected: `a whole number from ${min} to ${max}`,
    parse: (text) => {
      const value = /^\d{1,6}$/.test(text) ? Number(text) : NaN;
      return value >= min && value <= max ? value : undefined;
    },
  };
}

/** `true` or `false`. */
export function flag(absent: boolean, about: ParameterText): Parameter<boolean> {
  return {
    ...about,
    schema: { type: 'boolean', default: absent },
    absent,
    expected: 'true or false',
    parse: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  };
}

/** The name of a release channel; null if missing. */
export function channelName(about: ParameterText): Parameter<string | null> {
  return {
    ...about,
    schema: {
      description:
        'Up to 63 lower-case letters, digits and hyphens, a letter or digit at both ends, and not `current` or `releases`.',
      type: 'string',
      pattern: channelForm.source,
    },
    absent: null,
    expected: 'the name of a channel, such as preview',
    parse: (text) => (isChannelName(text) ? text : undefined),
  };
}

/** A bundle path, with `.` for the root of the destination; null if missing. */
export function bundlePath(about: ParameterText): Parameter<string | null> {
  return {
    ...about,
    schema: { type: 'string', minLength: 1, maxLength: 1024 },
    absent: null,
    expected: 'a path relative to the root of the destination, such as maps/session-42, or .',
    parse: (text) => (text === '.' || parseRelativePath(text).ok ? text : undefined),
  };
}

function listOf<T extends string>(
  { max, ...rest }: ParameterText & { max: number; expected: string },
  parseItem: (item: string) => T | undefined,
): Parameter<readonly T[]> {
  return {
    ...rest,
    schema: { description: toSentence(rest.expected), type: 'string' },
    absent: [],
    parse: (text) => {
      const items = text.split(',').map((item) => (item.trim() === '' ? undefined : parseItem(item.trim())));
      const found = new Set(items.filter((item) => item !== undefined));
      return items.includes(undefined) || found.size > max ? undefined : [...found];
    },
  };
}

/** Turns the description of a valid value into a sentence, without the example at its end. */
export function toSentence(expected: string): string {
  const words = expected.replace(/, such as \S+$/, '');
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

function anyCase(pattern: RegExp): string {
  return pattern.source.replaceAll(/A-Z/g, 'A-Za-z');
}
