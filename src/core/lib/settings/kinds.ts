import { parseInstant } from '../instant.ts';
import {
  accepted,
  checkHost,
  checkPath,
  checkRemotePath,
  isProxyRange,
  parseBasePath,
  parseBaseUrl,
  type ParsedValue,
  parseEndpoint,
  parseListen,
  parseOrigin,
  parsePrefix,
  parseWebhookUrl,
  resolveAmount,
  resolveDuration,
  resolvePath,
  resolveSize,
} from './parse-values.ts';
import {
  type AcceptedBy,
  type DocumentOf,
  type Duration,
  type MapForm,
  type NumberForm,
  type ResolvedBy,
  type ResolvedOf,
  Setting,
  type SettingDescription,
  type Settings,
  type TextForm,
  type ValueForm,
  type ValueRefusal,
} from './setting.ts';
import {
  type Amount,
  amountPattern,
  durationPattern,
  parseAmount,
  parseDuration,
  parseSize,
  sizePattern,
} from './sizes-and-durations.ts';

/**
 * The kinds of values that a setting can have. Each has a phrase that describes a valid value and is part of
 * every failure; `load-config.ts` makes a sentence of it. A check that knows more also returns a `reason`.
 */

/** Declares a kind of value. `title` is its name in editors, and in the type column of the reference. */
export function expects<T, R = T>(
  form: ValueForm,
  expected: string,
  more: Partial<SettingDescription> = {},
): Setting<T, false, R> {
  return new Setting<T, false, R>(form, { expected, ...more });
}

/** Creates each setting once, when it is first used. Settings never change, so they can be shared. */
function shared<Given extends readonly unknown[], S extends Setting>(
  make: (...given: Given) => S,
): (...given: Given) => S {
  const made = new Map<string, S>();
  return (...args) => {
    const key = JSON.stringify(args);
    const setting = made.get(key) ?? make(...args);
    made.set(key, setting);
    return setting;
  };
}

// A control character means that a key was pasted by mistake, or that this is an attempt to forge log lines
// or headers.
const singleLine = /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,4096}$/;
/** The maximum length of such a text. */
export const maxTextLength = 4096;

/** A string that `parse` accepts. The configuration contains the result of parsing it. */
export function text<R = string>(
  expected: string,
  title: string,
  parse?: (value: string) => ParsedValue<R>,
): Setting<string, false, R> {
  const form: TextForm = { kind: 'text', pattern: singleLine };
  if (parse === undefined) return expects(form, expected, { title });
  const resolve = (value: string): R => accepted(parse(value));
  return expects({ ...form, check: checked(parse) }, expected, { title, resolve });
}

function checked(check: (value: string) => ParsedValue<unknown>): (value: string) => ValueRefusal | null {
  return (value) => {
    const verdict = check(value);
    return verdict.ok ? null : { reason: verdict.reason, expected: verdict.expected };
  };
}

export function matching(pattern: RegExp, expected: string, title?: string): Setting<string, false, string> {
  return expects({ kind: 'text', pattern }, expected, { title });
}

export const id = shared(() =>
  matching(
    /^[a-z0-9][a-z0-9_-]{0,63}$/,
    'an id of at most 64 lower-case letters, digits, _ and -, beginning with a letter or digit',
    'id',
  ),
);

/**
 * The value of a setting whose name ends in `_env`, which is the name of a variable. If it is invalid, it
 * could be the secret itself, so it is never shown.
 */
export const environmentName = shared(() =>
  matching(
    /^[A-Za-z_][A-Za-z0-9_]{0,254}$/,
    'the name of an environment variable (letters, digits and _), never the secret value itself',
    'variable name',
  ),
);

export const path = shared(() =>
  expects<string>(
    { kind: 'text', pattern: singleLine, check: checked(checkPath) },
    'the path of a file or directory',
    { title: 'path', resolve: resolvePath },
  ),
);
export const remotePath = shared(() =>
  text('the path of a directory on the server', 'remote path', checkRemotePath),
);
export const prefix = shared(() =>
  expects<string>(
    { kind: 'text', pattern: null, mayBeEmpty: true, check: checked(parsePrefix) },
    'a prefix of keys such as live/ or maps/live/',
    { title: 'prefix', resolve: (value: string) => accepted(parsePrefix(value)) },
  ),
);
export const listen = shared(() =>
  text('host:port such as 127.0.0.1:8080 or [::1]:8080', 'host:port', parseListen),
);
export const basePath = shared(() => text('a path such as /waybill/', 'URL path', parseBasePath));
export const baseUrl = shared(() =>
  text('an absolute URL such as https://maps.example.org/', 'URL', parseBaseUrl),
);
export const endpoint = shared(() =>
  text('an absolute URL such as https://s3.example.org', 'URL', parseEndpoint),
);
export const webhookUrl = shared(() =>
  text('an absolute URL such as https://ops.example.org/waybill', 'URL', parseWebhookUrl),
);
export const origin = shared(() =>
  text('an origin such as https://app.example.org, or "*" for any', 'origin', parseOrigin),
);
export const host = shared((alone: 'alone' | 'with port') =>
  text('a host name or an address, without a port', 'host', (value) => checkHost(value, alone)),
);
export const proxyRange = shared(() =>
  text(
    'an address, a CIDR range such as 10.0.0.0/8, or loopback, linklocal or uniquelocal',
    'address range',
    checkText(isProxyRange, 'it is none of these'),
  ),
);
export const cacheControl = shared(() =>
  matching(/^[\u0020-\u007e]{1,1024}$/, 'a Cache-Control value such as "public, max-age=60", in ASCII'),
);

function checkText(test: (value: string) => boolean, reason: string): (value: string) => ParsedValue<string> {
  return (value) => (test(value) ? { ok: true, value } : { ok: false, reason });
}

export const boolean = shared(() =>
  expects<boolean>({ kind: 'boolean' }, 'true or false', { isNumeric: true }),
);

export function booleanOr<W extends string>(...words: W[]): Setting<boolean | W, false, boolean | W> {
  return expects(
    { kind: 'either', forms: [{ kind: 'boolean' }, { kind: 'choice', values: words }] },
    `true, false or ${words.join(', ')}`,
    { title: `true, false, ${words.join(', ')}` },
  );
}

export const integer = shared((min: number, max: number) =>
  expects<number>({ kind: 'number', isWhole: true, min, max }, `a whole number from ${min} to ${max}`, {
    isNumeric: true,
  }),
);

export const ratio = shared(() =>
  expects<number>({ kind: 'number', isWhole: false, min: 0, max: 1 }, 'a number from 0 to 1'),
);

export function choice<V extends string>(...values: V[]): Setting<V, false, V> {
  const expected = values.length === 1 ? `"${values.join()}"` : `one of ${values.join(', ')}`;
  return expects({ kind: 'choice', values }, expected);
}

export const duration = shared(({ atLeast, atMost }: { atLeast: string; atMost: string }) => {
  const [min = 0, max = 0] = [parseDuration(atLeast), parseDuration(atMost)];
  const check = (value: string): ValueRefusal | null => {
    const ms = parseDuration(value);
    if (ms === undefined) return {};
    if (ms < min) return { reason: `it is less than ${atLeast}` };
    return ms > max ? { reason: `it is more than ${atMost}` } : null;
  };
  return expects<string, Duration>(
    { kind: 'text', pattern: new RegExp(durationPattern), check },
    'a duration: a whole number with a unit, such as 500ms, 30s, 15m, 24h or 7d',
    { title: `duration, ${atLeast} to ${atMost}`, isNumeric: true, resolve: resolveDuration, unit: 'ms' },
  );
});

export const instant = shared(() =>
  text('a time with a zone, such as 2027-01-31T00:00:00Z', 'time', parseInstant),
);

export const size = shared(({ atLeast }: { atLeast: number }) =>
  expects<string | number, number>(
    textOrNumber(sizePattern, (value) => (parseSize(value) ?? -1) >= atLeast, { min: atLeast, max: null }),
    'a size such as 512MiB, 2GB or 10KiB, or a whole number of bytes',
    { title: 'size', isNumeric: true, resolve: resolveSize },
  ),
);

/**
 * Three octal digits, as a number or a string. The first must be one of `owner`. Other users may not have
 * write access. In YAML, `0o644` is the number 420, so that is not accepted.
 */
export const mode = shared(({ owner }: { owner: readonly number[] }) => {
  const pattern = `^0?[${owner.join('')}][0-7][0145]$`;
  const check = (value: number): ValueRefusal | null => (new RegExp(pattern).test(String(value)) ? null : {});
  const text: TextForm = { kind: 'text', pattern: new RegExp(pattern) };
  return expects<string | number, number>(
    { kind: 'either', forms: [text, { kind: 'number', isWhole: true, min: 0, max: 777, check }] },
    `three octal digits that begin with ${owner.join(' or ')} and end with 0, 1, 4 or 5`,
    { title: 'mode', isNumeric: true, resolve: (value: string | number) => parseInt(String(value), 8) },
  );
});

export const amount = shared(() =>
  expects<string | number, Amount>(
    textOrNumber(amountPattern, (value) => parseAmount(value) !== undefined, { min: 0, max: 999_999_999 }),
    'a number such as 100, or a share such as 20%',
    { title: 'number or share', isNumeric: true, resolve: resolveAmount },
  ),
);

export function textOrNumber(
  pattern: string,
  isOne: (value: string) => boolean,
  range: Pick<NumberForm, 'min' | 'max'>,
): ValueForm {
  const check = (value: string): ValueRefusal | null => (isOne(value) ? null : {});
  const text: TextForm = { kind: 'text', pattern: new RegExp(pattern), check };
  return { kind: 'either', forms: [text, { kind: 'number', isWhole: true, ...range }] };
}

export function list<S extends Setting>(
  items: S,
  { min, expected, isUnique = false }: { min: number; expected: string; isUnique?: boolean },
): Setting<AcceptedBy<S>[], false, ResolvedBy<S>[]> {
  return expects({ kind: 'list', items, min, isUnique }, expected);
}

/** A map in which only these keys are allowed. */
export function map<K extends Settings>(
  keys: K,
  {
    setTogether = [],
    oneOf = [],
    check,
  }: Partial<Pick<MapForm, 'setTogether' | 'oneOf'>> & {
    check?: (value: DocumentOf<K>) => ValueRefusal | null;
  } = {},
): Setting<DocumentOf<K>, false, ResolvedOf<K>> {
  const known = Object.keys(keys);
  const expected = `a map with the ${known.length === 1 ? 'key' : 'keys'} ${known.join(', ')}`;
  return expects({ kind: 'map', keys, setTogether, oneOf, check }, expected);
}

/** A map whose keys are chosen by the user. `names` describes valid keys. */
export function mapOf<S extends Setting>(
  names: { form: RegExp; expected: string },
  values: S,
): Setting<Record<string, AcceptedBy<S>>, false, Record<string, ResolvedBy<S>>> {
  return expects({ kind: 'map by name', names, values }, `a map by name, each ${names.expected}`);
}

/** A map in which the value of one key decides which others are allowed. */
export function variants<M extends Settings>(
  discriminator: string,
  expected: string,
  maps: M,
): Setting<AcceptedBy<M[keyof M]>, false, ResolvedBy<M[keyof M]>> {
  return expects({ kind: 'variants', discriminator, maps, otherwise: null }, expected);
}

/** Like `variants`, except that if the discriminator has another value, the map is checked by `otherwise`. */
export function variantsOr<M extends Settings, S extends Setting>(
  discriminator: string,
  maps: M,
  { otherwise, expected }: { otherwise: S; expected: string },
): Setting<AcceptedBy<M[keyof M] | S>, false, ResolvedBy<M[keyof M] | S>> {
  return expects({ kind: 'variants', discriminator, maps, otherwise }, expected);
}
