import type { UnitSystem } from '../../core/weather/queries.ts';
import type { WeatherParameter } from './parameters.ts';

type About = Pick<WeatherParameter<never>, 'description' | 'example'>;

/** An identifier in any case, handed on in upper case; none: null. */
export function identifier(pattern: RegExp, expected: string, about: About): WeatherParameter<string | null> {
  return {
    ...about,
    schema: { type: 'string', pattern: anyCase(pattern) },
    absent: null,
    expected,
    read: (text) => {
      const upper = text.toUpperCase();
      return pattern.test(upper) ? upper : undefined;
    },
  };
}

/** Identifiers with commas between them; none: empty. The same one twice counts once. */
export function identifiers(
  pattern: RegExp,
  most: number,
  one: string,
  about: About,
): WeatherParameter<readonly string[]> {
  return listOf(
    { most, expected: `${one}, or up to ${most} of them with commas between`, ...about },
    { type: 'string', pattern: anyCase(pattern) },
    (item) => (pattern.test(item.toUpperCase()) ? item.toUpperCase() : undefined),
  );
}

/** Some of a fixed set, in any case, with commas between them; none: empty. */
export function choices<T extends string>(
  values: readonly T[],
  about: About,
): WeatherParameter<readonly T[]> {
  return listOf(
    { most: values.length, expected: `any of ${values.join(', ')}, with commas between`, ...about },
    { type: 'string', enum: values },
    (item) => values.find((value) => value.toLowerCase() === item.toLowerCase()),
  );
}

/** Free names with commas between them; none: empty. */
export function names(most: number, longest: number, about: About): WeatherParameter<readonly string[]> {
  return listOf(
    { most, expected: `up to ${most} names with commas between, none over ${longest} characters`, ...about },
    { type: 'string', maxLength: longest },
    (item) => (item.length <= longest && !item.includes('\0') ? item : undefined),
  );
}

export function choice<T extends string>(values: readonly T[], absent: T, about: About): WeatherParameter<T> {
  return {
    ...about,
    schema: { type: 'string', enum: values, default: absent },
    absent,
    expected: `one of ${values.join(', ')}`,
    read: (text) => values.find((value) => value === text),
  };
}

export function wholeNumber(
  least: number,
  most: number,
  absent: number,
  about: About,
): WeatherParameter<number> {
  return {
    ...about,
    schema: { type: 'integer', minimum: least, maximum: most, default: absent },
    absent,
    expected: `a whole number from ${least} to ${most}`,
    read: (text) => {
      const value = /^\d{1,6}$/.test(text) ? Number(text) : NaN;
      return value >= least && value <= most ? value : undefined;
    },
  };
}

export function flag(absent: boolean, about: About): WeatherParameter<boolean> {
  return {
    ...about,
    schema: { type: 'boolean', default: absent },
    absent,
    expected: 'true or false',
    read: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  };
}

/** Read as it stands: an unknown format is a matter of negotiation, not of the query. */
export const formatParameter: WeatherParameter<string | null> = {
  description: 'The form of the answer; it beats `Accept`. Without both: json.',
  schema: { type: 'string', enum: ['json', 'xml', 'text'] },
  absent: null,
  expected: 'one of json, xml, text',
  read: (text) => text,
};

export const unitsParameter: WeatherParameter<UnitSystem> = choice(['si', 'us'], 'si', {
  description: '`si`: degC, km/h, Pa, m, mm. `us`: degF, mph, inHg, mi, ft, in.',
});

function listOf<T extends string>(
  { most, ...rest }: About & { most: number; expected: string },
  items: object,
  readOne: (item: string) => T | undefined,
): WeatherParameter<readonly T[]> {
  return {
    ...rest,
    schema: { type: 'string', description: `With commas between; each ${JSON.stringify(items)}.` },
    absent: [],
    read: (text) => {
      const read = text.split(',').map((item) => (item.trim() === '' ? undefined : readOne(item.trim())));
      const found = new Set(read.filter((item) => item !== undefined));
      return read.includes(undefined) || found.size > most ? undefined : [...found];
    },
  };
}

function anyCase(pattern: RegExp): string {
  return pattern.source.replaceAll(/A-Z/g, 'A-Za-z');
}
