import type joi from 'joi';
import { isNumeric } from '../../lib/settings/kinds.ts';
import { nearest } from '../nearest.ts';
import type { KeyPath } from '../yaml-text.ts';

/** Something that is not right with the document, by its place in it; positions come later. */
export interface Fault {
  severity: 'error' | 'warning';
  code:
    | 'unknown_key'
    | 'missing_key'
    | 'invalid_value'
    | 'duplicate_id'
    | 'unknown_pipeline'
    | 'same_location'
    | 'overlapping_locations'
    | 'upload_token_missing'
    | 'no_pipelines'
    | 'variable_in_path';
  path: KeyPath;
  /** Where to point at, where that is not `path` itself (a missing key has no position). */
  at?: KeyPath;
  part: 'key' | 'value';
  message: string;
}

/** Joi's findings as sentences: what was found, what was expected, and what was probably meant. Pure. */
export function schemaFaults(error: joi.ValidationError | undefined): Fault[] {
  const faults = new Map<string, Fault>();
  for (const item of error?.details ?? []) {
    const fault = faultOf(item);
    const place = JSON.stringify(fault.path);
    // Several rules of one value fail together; the one that knows a reason says most.
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

/** Of some keys one has to be there, and no other. */
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
    message: `cannot stand beside ${first}; expected one of the two`,
  };
}

function unknownKey(path: KeyPath, { known, expectedKey }: Record<string, unknown>): Fault {
  const key = String(path.at(-1));
  if (typeof expectedKey === 'string') {
    const message = `"${key}" is no name that can be used here; expected ${expectedKey}`;
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

export function didYouMean(found: unknown, known: readonly string[]): string {
  const guess = typeof found === 'string' ? nearest(found, known) : undefined;
  return guess === undefined ? '' : `; did you mean "${guess}"?`;
}

/** What was found, for people, and never a value that could be a secret. */
function describe(value: unknown, place: { path: KeyPath; expected: string }): string {
  if (value === null || value === undefined) return 'nothing (null)';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (value === '') return 'an empty text';
  if (place.expected.startsWith('a map') && typeof value === 'string' && /^[\w-]+:\S/.test(value))
    return 'a text that is no map, since no space stands after its colon';
  const kind =
    typeof value === 'string' ? 'the text' : typeof value === 'number' ? 'the number' : 'the value';
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
    return 'something else';
  return mayBeSecret(value, place) ? `${kind} (not shown: it may be a secret)` : `${kind} ${quote(value)}`;
}

/**
 * Settings of other kinds than numbers whose values are harmless by nature; anything else is not repeated. A
 * text in place of a map has no such name.
 */
const shown = new Set([
  ...[
    'id',
    'pipelines',
    'backend',
    'driver',
    'listen',
    'base_path',
    'trusted_proxies',
    'origins',
    'retention',
    'queue_size',
    'max_concurrency',
  ],
  ...[
    'upload_timeout',
    'idle_timeout',
    'shutdown_timeout',
    'protect_runs',
    'directory',
    'host',
    'port',
    'path',
    'host_key_policy',
  ],
  ...[
    'known_hosts_file',
    'max_requests',
    'max_connections',
    'bucket',
    'prefix',
    'endpoint',
    'region',
    'path_style',
    'max_upload_size',
    'max_files',
    'mapping',
  ],
  ...[
    'workflow',
    'public_base_url',
    'checksums',
    'archive',
    'index',
    'scene_map_page',
    'max_waiting',
    'enabled',
    'keep_latest',
    'older_than',
    'max_removed',
  ],
  ...['file_concurrency', 'content_rules', 'allow_bucket_root', 'level', 'requests'],
  ...['schedule', 'timezone', 'catch_up', 'jitter', 'watch', 'settle'],
]);

function mayBeSecret(
  value: string | number | boolean,
  { path, expected }: { path: KeyPath; expected: string },
): boolean {
  const key = path.findLast((step) => typeof step === 'string');
  if (path[0] === 'upload_tokens' && key !== 'pipelines') return true;
  // By its kind and not by its name: where a number belongs, one that does not fit is no secret.
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

/** As keys and tokens look: long, without spaces, of mixed case and digits. */
function looksRandom(text: string): boolean {
  return /^[A-Za-z0-9+/_.~-]{20,}$/.test(text) && /[a-z]/.test(text) && /[A-Z]/.test(text) && /\d/.test(text);
}

function quote(value: string | number | boolean): string {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029]/g, '?');
}
