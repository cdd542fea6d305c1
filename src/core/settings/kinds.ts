import joi from 'joi';
import { parseInstant } from '../instant.ts';
import {
  amountPattern,
  durationPattern,
  parseAmount,
  parseDuration,
  parseSize,
  sizePattern,
} from './units.ts';
import {
  checkPath,
  checkRemotePath,
  isHost,
  isProxyRange,
  parseBasePath,
  parseBaseUrl,
  parseEndpoint,
  parseListen,
  parseOrigin,
  parsePrefix,
  parseWebhookUrl,
  type Verdict,
} from './values.ts';

/**
 * The kinds of values that settings have. Each says in one phrase what it expects: the phrase is the schema's
 * message for every failure (`*`), and `config/schema/findings.ts` builds the sentence around it. A check
 * that knows better adds `reason`.
 */

// The `title` is the kind of text, for editors and for the type column of the reference.
export function expects<S extends joi.Schema>(schema: S, expected: string, title?: string): S {
  // As its label, which `validationOptions` makes the message of every failure: a message of its own costs
  // joi thirty times as much to take in.
  const labelled = schema.label(expected);
  return (title === undefined ? labelled : labelled.meta({ title })) as S;
}

/** What the kinds expect whose values are numbers, with or without a unit, or true or false. */
const numeric = new Set<string>();

/** The same as `expects`, of a kind whose values are numbers or nearly: no secret belongs in their place. */
function expectsNumber<S extends joi.Schema>(schema: S, expected: string, title?: string): S {
  numeric.add(expected);
  return expects(schema, expected, title);
}

/** Whether a number is what a setting expects, by the phrase of its kind. */
export function isNumeric(expected: string): boolean {
  return numeric.has(expected);
}

/** Schemas cannot change: one serves all settings of its kind, and is made when the first of them asks. */
function shared<Given extends readonly unknown[], S extends joi.Schema>(
  make: (...given: Given) => S,
): (...given: Given) => S {
  const made = new Map<string, S>();
  return (...given) => {
    const key = JSON.stringify(given);
    const schema = made.get(key) ?? make(...given);
    made.set(key, schema);
    return schema;
  };
}

// No control characters anywhere: such a value is a slip of the hand (a pasted key) or an attempt to forge
// log lines or headers.
const singleLine = /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,4096}$/;

export function text(
  expected: string,
  title: string,
  check?: (value: string) => Verdict<unknown>,
): joi.StringSchema {
  const schema = joi.string().pattern(singleLine);
  return expects(check === undefined ? schema : schema.custom(checked(check)), expected, title);
}

function checked(check: (value: string) => Verdict<unknown>): joi.CustomValidator<string> {
  return (value, helpers) => {
    const verdict = check(value);
    return verdict.ok ? value : helpers.error('waybill.reason', { reason: verdict.reason });
  };
}

export function matching(pattern: RegExp, expected: string, title?: string): joi.StringSchema {
  return expects(joi.string().pattern(pattern), expected, title);
}

export const id = shared(() =>
  matching(
    /^[a-z0-9][a-z0-9_-]{0,63}$/,
    'an id of at most 64 lower-case letters, digits, _ and -, beginning with a letter or digit',
    'id',
  ),
);

/**
 * A name that ends in `_env` asks for the name of a variable; what is found there is never shown, since it
 * may be the secret.
 */
export const environmentName = shared(() =>
  matching(
    /^[A-Za-z_][A-Za-z0-9_]{0,254}$/,
    'the name of an environment variable (letters, digits and _), never the secret value itself',
    'variable name',
  ),
);

export const path = shared(() => text('the path of a file or directory', 'path', checkPath));
export const remotePath = shared(() =>
  text('the path of a directory on the server', 'remote path', checkRemotePath),
);
export const prefix = shared(() =>
  expects(
    joi.string().allow('').custom(checked(parsePrefix)),
    'a prefix of keys such as live/ or maps/live/',
    'prefix',
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
export const host = shared(() =>
  text(
    'a host name or an address, without a port',
    'host',
    is(isHost, 'it is neither a name nor an address'),
  ),
);
export const proxyRange = shared(() =>
  text(
    'an address, a CIDR range such as 10.0.0.0/8, or loopback, linklocal or uniquelocal',
    'address range',
    is(isProxyRange, 'it is none of these'),
  ),
);
export const cacheControl = shared(() =>
  matching(/^[\u0020-\u007e]{1,1024}$/, 'a Cache-Control value such as "public, max-age=60", in ASCII'),
);

function is(test: (value: string) => boolean, reason: string): (value: string) => Verdict<unknown> {
  return (value) => (test(value) ? { ok: true, value } : { ok: false, reason });
}

export const boolean = shared(() => expectsNumber(joi.boolean(), 'true or false'));

export const integer = shared((min: number, max: number) =>
  expectsNumber(joi.number().integer().min(min).max(max), `a whole number from ${min} to ${max}`),
);

export const choice = shared((...values: string[]) => {
  const expected = values.length === 1 ? `"${values.join()}"` : `one of ${values.join(', ')}`;
  return expects(joi.string().valid(...values), expected);
});

export const duration = shared(({ atLeast, atMost }: { atLeast: string; atMost: string }) => {
  const [min = 0, max = 0] = [parseDuration(atLeast), parseDuration(atMost)];
  const schema = joi
    .string()
    .pattern(new RegExp(durationPattern))
    .custom((value: string, helpers) => {
      const ms = parseDuration(value);
      if (ms === undefined) return helpers.error('waybill.reason', {});
      if (ms < min) return helpers.error('waybill.reason', { reason: `it is less than ${atLeast}` });
      return ms > max ? helpers.error('waybill.reason', { reason: `it is more than ${atMost}` }) : value;
    });
  return expectsNumber(
    schema,
    'a duration: a whole number with a unit, such as 500ms, 30s, 15m, 24h or 7d',
    `duration, ${atLeast} to ${atMost}`,
  );
});

/** RFC 3339, with a zone. */
export const instant = shared(() =>
  text('a time with a zone, such as 2027-01-31T00:00:00Z', 'time', parseInstant),
);

/** Bytes, as a number or with a unit. */
export const size = shared(({ atLeast }: { atLeast: number }) => {
  const withUnit = joi
    .string()
    .pattern(new RegExp(sizePattern))
    .custom((value: string, helpers) =>
      (parseSize(value) ?? -1) >= atLeast ? value : helpers.error('waybill.reason', {}),
    );
  return expectsNumber(
    joi.alternatives().try(withUnit, joi.number().integer().min(atLeast)),
    'a size such as 512MiB, 2GB or 10KiB, or a whole number of bytes',
    'size',
  );
});

/** A count, or a share in per cent. */
export const amount = shared(() => {
  const text = joi
    .string()
    .pattern(new RegExp(amountPattern))
    .custom((value: string, helpers) =>
      parseAmount(value) === undefined ? helpers.error('waybill.reason', {}) : value,
    );
  return expectsNumber(
    joi.alternatives().try(text, joi.number().integer().min(0).max(999_999_999)),
    'a number such as 100, or a share such as 20%',
    'number or share',
  );
});

export function list(
  items: joi.Schema,
  { min, expected }: { min: number; expected: string },
): joi.ArraySchema {
  const schema = joi.array().items(items);
  return expects(min === 0 ? schema : schema.min(min), expected);
}

/** A map with these keys and no others; `T` is what it looks like once it was accepted. */
export function map<T = unknown>(keys: Record<string, joi.Schema>): joi.ObjectSchema<T> {
  const known = Object.keys(keys);
  const schema = joi.object<T>(keys);
  const expected = `a map with the ${known.length === 1 ? 'key' : 'keys'} ${known.join(', ')}`;
  return expects(schema, expected).error(tellKnownKeys(known));
}

/** A map whose keys are names that people choose; `names` says what a name may be. */
export function mapOf(names: { form: RegExp; expected: string }, values: joi.Schema): joi.ObjectSchema {
  const schema = joi.object().pattern(names.form, values);
  return expects(schema, `a map by name, each ${names.expected}`).error((reports) => {
    for (const report of reports)
      if (report.code === 'object.unknown')
        (report.local as Record<string, unknown>)['expectedKey'] = names.expected;
    return reports;
  });
}

/** Joi reports an unknown key without the known ones, which "did you mean" needs. */
function tellKnownKeys(known: string[]): joi.ValidationErrorFunction {
  return (reports) => {
    for (const report of reports)
      if (report.code === 'object.unknown') (report.local as Record<string, unknown>)['known'] ??= known;
    return reports;
  };
}

/** A map whose keys depend on the value of one of them. */
export function variants<T = unknown>(
  discriminator: string,
  what: string,
  maps: Record<string, joi.Schema>,
): joi.AlternativesSchema<T> {
  const names = Object.keys(maps);
  const expected = `${what}: a map with the key ${discriminator} (one of ${names.join(', ')}) and what belongs to it`;
  // Where the discriminator itself is wrong it is the only finding: nothing can be said of the rest.
  const undecided = expects(joi.object({ [discriminator]: choice(...names).required() }).unknown(), expected);
  const cases = Object.entries(maps).map(([name, then]) => ({ is: name, then }));
  return expects(
    joi.alternatives<T>().conditional(`.${discriminator}`, { switch: cases, otherwise: undecided }),
    expected,
  );
}
