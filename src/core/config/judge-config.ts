import { dirname, resolve } from 'node:path';
import type joi from 'joi';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import { joiSchema } from '../lib/settings/joi-schema.ts';
import { isNumeric } from '../lib/settings/kinds.ts';
import { acceptedConfig, type Loaded, type LoadOptions, locatorIn } from './accepted-config.ts';
import { didYouMean, type Fault, findingsOf, inOrder, keyPath } from './faults.ts';
import { relationFaults } from './relations.ts';
import { resolveConfig } from './resolve.ts';
import { type ConfigDocument, configSchema } from './schema/schema.ts';
import { type KeyPath, readYaml } from './yaml-text.ts';

/** The configuration in the bytes of `file`. Throws `config_invalid` as `loadConfig` does. */
export function parseConfig(bytes: Uint8Array, file: string, options: LoadOptions): Loaded {
  return acceptedConfig(bytes, file, options) ?? judgeConfig(bytes, file, options);
}

/** The same of a file that is probably wrong; in the end, the schema decides. */
export function judgeConfig(bytes: Uint8Array, file: string, { home }: LoadOptions): Loaded {
  const read = readYaml(bytes);
  if (!read.ok)
    throw invalid(
      file,
      read.problems.map((item) => place(file, item)),
    );

  const { yaml } = read;
  const absolute = resolve(file);
  const { error, value } = validate(yaml.value);
  const faults = [
    ...schemaFaults(error),
    ...relationFaults(yaml.value, { directory: dirname(absolute), home }),
  ];
  const findings = inOrder([
    ...yaml.problems.map((item) => place(file, item)),
    ...findingsOf(faults, yaml, file),
  ]);
  if (value === undefined || findings.some(({ severity }) => severity === 'error'))
    throw invalid(file, findings);
  const config = resolveConfig(value, { file: absolute, home });
  return { config, warnings: findings, locate: locatorIn(yaml) };
}

export function tooLarge(file: string, maxBytes: number): WaybillError {
  const message = `the file is larger than ${maxBytes / 1024 / 1024} MiB`;
  return invalid(file, [finding('error', 'yaml_syntax', message, { file })]);
}

/**
 * Converts nothing (`"8080"` is not a number) and reports all failures together. The message of a failure
 * is the label of the schema that failed, which describes the expected value.
 */
export const validationOptions: joi.ValidationOptions = {
  abortEarly: false,
  convert: false,
  messages: { '*': '{#label}' },
  errors: { wrap: { label: false } },
};

function validate(document: unknown): {
  error?: joi.ValidationError | undefined;
  value: ConfigDocument | undefined;
} {
  const schema = joiSchema(configSchema);
  try {
    return schema.validate(document, validationOptions);
  } catch (error) {
    // Joi passes findings on as arguments, and a hundred thousand of them exhaust the stack: then the first
    // must do.
    if (!(error instanceof RangeError)) throw error;
    return schema.validate(document, { ...validationOptions, abortEarly: true });
  }
}

function place(
  file: string,
  item: { code: string; message: string; path: KeyPath | null; line: number; column: number },
): Finding {
  const { code, message, path, line, column } = item;
  return finding('error', code, message, {
    file,
    pointer: path === null ? null : keyPath(path),
    line,
    column,
  });
}

function invalid(file: string, findings: Finding[]): WaybillError {
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  return new WaybillError(
    'config_invalid',
    `the configuration ${file} has ${errors === 1 ? 'an error' : `${errors} errors`}`,
    {
      hint: 'fix these settings and run again; docs/configuration.md describes every setting',
      findings,
    },
  );
}

/** Joi's findings as sentences: the value found, the value expected, and a suggestion. Pure. */
function schemaFaults(error: joi.ValidationError | undefined): Fault[] {
  const faults = new Map<string, Fault>();
  for (const item of error?.details ?? []) {
    const fault = faultOf(item);
    const place = JSON.stringify(fault.path);
    // Several rules of one value may fail together. A failure with a reason has priority.
    if (!faults.has(place) || item.context?.['reason'] !== undefined) faults.set(place, fault);
  }
  return [...faults.values()];
}

function faultOf({ type, path, context = {}, message: expected }: joi.ValidationErrorItem): Fault {
  if (type === 'object.unknown') return unknownKey(path, context);
  if (type === 'object.and') {
    const [missing = ''] = context['missing'] as string[];
    const [present = ''] = context['present'] as string[];
    const message = `is missing; ${present} is set, and the two are set together or not at all`;
    return {
      severity: 'error',
      code: 'missing_key',
      path: [...path, missing],
      at: [...path, present],
      part: 'key',
      message,
    };
  }
  if (type === 'object.missing' || type === 'object.xor') return notExactlyOne(path, context);
  if (type === 'any.required')
    return {
      severity: 'error',
      code: 'missing_key',
      path,
      at: path.slice(0, -1),
      part: 'value',
      message: `is missing; expected ${expected}`,
    };

  const wanted = typeof context['expected'] === 'string' ? context['expected'] : expected;
  const reason = typeof context['reason'] === 'string' ? `: ${context['reason']}` : '';
  const guess = type === 'any.only' ? didYouMean(context.value, context['valids'] as string[]) : '';
  const found =
    context['expected'] === undefined
      ? `found ${describe(context.value, { path, expected })}${reason}`
      : String(context['reason']);
  return {
    severity: 'error',
    code: 'invalid_value',
    path,
    part: 'value',
    message: `${found}; expected ${wanted}${guess}`,
  };
}

/** The fault of a map that must have exactly one of several keys. */
function notExactlyOne(path: KeyPath, context: Record<string, unknown>): Fault {
  const peers = context['peers'] as string[];
  const [first = '', second] = (context['present'] as string[] | undefined) ?? [];
  if (second === undefined)
    return {
      severity: 'error',
      code: 'missing_key',
      path: [...path, peers[0] ?? ''],
      at: path,
      part: 'value',
      message: `is missing; expected it, or ${peers.slice(1).join(' or ')} in its place`,
    };
  return {
    severity: 'error',
    code: 'invalid_value',
    path: [...path, second],
    part: 'key',
    message: `cannot be combined with ${first}; expected one of the two`,
  };
}

function unknownKey(path: KeyPath, { known, expectedKey }: Record<string, unknown>): Fault {
  const key = String(path.at(-1));
  if (typeof expectedKey === 'string') {
    const message = `"${key}" is not a valid name here; expected ${expectedKey}`;
    return { severity: 'error', code: 'invalid_value', path, part: 'key', message };
  }
  const keys = known as string[];
  const reason = Object.hasOwn(refused, key) ? refused[key] : undefined;
  const guess = didYouMean(key, keys) || `; the keys here are ${keys.join(', ')}`;
  const message = reason ?? `unknown key${guess}`;
  return { severity: 'error', code: 'unknown_key', path, part: 'key', message };
}

const noLiterals = 'secrets never stand in the configuration; ';

/** Keys that people try, and why they are not there. */
const refused: Readonly<Record<string, string>> = {
  password: 'passwords in YAML are not supported; use ssh_key_file or an SSH agent',
  passphrase: `${noLiterals}name an environment variable in ssh_key_passphrase_env`,
  ssh_key_passphrase: `${noLiterals}name an environment variable in ssh_key_passphrase_env`,
  value: `${noLiterals}name an environment variable in value_env`,
  token: `${noLiterals}name an environment variable in value_env`,
  secret: `${noLiterals}name an environment variable in the key that ends in _env`,
  access_key_id: `${noLiterals}name an environment variable in access_key_id_env`,
  secret_access_key: `${noLiterals}name an environment variable in secret_access_key_env`,
  file_mode: 'only local and SFTP destinations have modes, since objects and sources do not get one',
  directory_mode: 'only local and SFTP destinations have modes, since objects and sources do not get one',
  redis_url: `${noLiterals}name an environment variable in redis_url_env`,
  force: 'no setting forces a publication; --force does, for one command',
  '<<': 'merge keys ("<<") are not supported; repeat the keys, or use an alias for a whole value',
};

/** Describes a value for people, and never shows one that could be a secret. */
function describe(value: unknown, place: { path: KeyPath; expected: string }): string {
  if (value === null || value === undefined) return 'nothing (null)';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (value === '') return 'an empty text';
  if (place.expected.startsWith('a map') && typeof value === 'string' && /^[\w-]+:\S/.test(value))
    return 'text instead of a map, because there is no space after the colon';
  const kind =
    typeof value === 'string' ? 'the text' : typeof value === 'number' ? 'the number' : 'the value';
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
    return 'something else';
  return mayBeSecret(value, place) ? `${kind} (not shown: it may be a secret)` : `${kind} ${quote(value)}`;
}

/**
 * Settings with harmless values, apart from numbers. Messages show no other value. Text in place of a map
 * has no such name, either.
 */
const shown = new Set(
  [
    'id pipelines backend driver listen base_path trusted_proxies origins retention queue_size',
    'max_concurrency upload_timeout idle_timeout shutdown_timeout protect_runs directory host port path',
    'host_key_policy known_hosts_file max_requests max_connections bucket prefix endpoint region',
    'path_style max_upload_size max_files mapping workflow public_base_url checksums archive index',
    'scene_map_page max_waiting enabled keep_latest older_than max_removed file_concurrency max_rate content_rules',
    'allow_bucket_root level requests schedule timezone catch_up jitter watch settle issuer',
  ].flatMap((names) => names.split(' ')),
);

function mayBeSecret(
  value: string | number | boolean,
  { path, expected }: { path: KeyPath; expected: string },
): boolean {
  const key = path.findLast((step) => typeof step === 'string');
  if (path[0] === 'upload_tokens' && key !== 'pipelines') return true;
  // Depends on the kind and not on the name: a malformed number is not a secret.
  if (
    isNumeric(expected) &&
    /^[-+]?\d{1,9}([.,]\d{1,9})?\s?[a-z%]{0,8}$|^(true|false|yes|no|on|off)$/i.test(String(value))
  )
    return false;
  if (key === undefined || !shown.has(key)) return true;
  return (
    typeof value === 'string' && (/[@?#&=]|-----BEGIN/.test(value) || value.length > 80 || looksRandom(value))
  );
}

/** Whether a text looks like a key or token: long, without spaces, with both cases and digits. */
function looksRandom(text: string): boolean {
  return /^[A-Za-z0-9+/_.~-]{20,}$/.test(text) && /[a-z]/.test(text) && /[A-Z]/.test(text) && /\d/.test(text);
}

function quote(value: string | number | boolean): string {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029]/g, '?');
}
