import { type Finding, finding } from '../lib/errors.ts';
import type { KeyPath, SettingProblem } from '../lib/settings/check.ts';
import { maxTextLength } from '../lib/settings/kinds.ts';
import { nearest } from '../lib/text.ts';
import type { YamlText } from './yaml-text.ts';

/** A problem at some path in the document. `findingsOf` looks up the line and column. */
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
  /**
   * The path whose position to report, if it is not `path`. A key that is missing, for example, has no
   * position.
   */
  at?: KeyPath;
  part: 'key' | 'value';
  message: string;
}

export function fault(code: Fault['code'], path: KeyPath, message: string): Fault {
  return { severity: 'error', code, path, part: 'value', message };
}

/** Returns a suggestion such as `; did you mean "local"?`. If no name is similar, returns an empty string. */
export function didYouMean(found: unknown, known: readonly string[]): string {
  const guess = typeof found === 'string' ? nearest(found, known) : undefined;
  return guess === undefined ? '' : `; did you mean "${guess}"?`;
}

/** Returns the faults as findings with line and column, in the order of the file. */
export function findingsOf(faults: readonly Fault[], yaml: YamlText, file: string): Finding[] {
  return inOrder(
    faults.map(({ severity, code, path, at = path, part, message }) =>
      finding(severity, code, message, { file, pointer: keyPath(path), ...yaml.locate(at, part) }),
    ),
  );
}

/** Sorts by line and column. */
export function inOrder(findings: readonly Finding[]): Finding[] {
  return findings.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
}

/**
 * Formats a path as in `pipelines[0].destinations[1].path`. For the document itself, this is an empty string.
 */
export function keyPath(path: KeyPath): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(step)) return `${text}[${JSON.stringify(step.slice(0, 64))}]`;
    return text === '' ? step : `${text}.${step}`;
  }, '');
}

/**
 * Explains each problem. If a secret itself is in the file, leaves out that the name of its variable is
 * missing: this follows from it.
 */
export function faultsOf(problems: readonly SettingProblem[]): Fault[] {
  const faults = problems.map(faultOf);
  const insteadOf = new Set(
    faults
      .filter(({ code, message }) => code === 'unknown_key' && message.startsWith(noLiterals))
      .map(({ path, message }) => keyPath([...path.slice(0, -1), /\w+_env/.exec(message)?.[0] ?? ''])),
  );
  return faults.filter(({ code, path }) => code !== 'missing_key' || !insteadOf.has(keyPath(path)));
}

/** Explains a problem in a sentence, with the value, what was expected, and a suggestion if there is one. */
function faultOf(problem: SettingProblem): Fault {
  const { path } = problem;
  switch (problem.kind) {
    case 'value': {
      const { found, expected, isNumeric, refusal, choices } = problem;
      const { reason, expected: wanted } = refusal;
      if (isMapWithoutSpace(found, expected)) return fault('invalid_value', path, addSpace(found, expected));
      const why = reason === undefined ? '' : `: ${reason}`;
      const description =
        wanted === undefined || typeof found === 'string'
          ? `found ${describe(found, { path, isNumeric })}${why}`
          : String(reason);
      return fault(
        'invalid_value',
        path,
        `${description}; expected ${wanted ?? expected}${didYouMean(found, choices)}`,
      );
    }
    case 'missing':
      return missingKey(path, path.slice(0, -1), `is missing; expected ${problem.expected}`);
    case 'unknown key':
      return { ...fault('unknown_key', path, unknownKey(String(path.at(-1)), problem.known)), part: 'key' };
    case 'bad name': {
      const message = `"${String(path.at(-1))}" is not a valid name here; expected ${problem.expected}`;
      return { ...fault('invalid_value', path, message), part: 'key' };
    }
    case 'incomplete': {
      const { present, missing } = problem;
      const message = `is missing, but ${present} is set; set both or neither`;
      return { ...missingKey([...path, missing], [...path, present], message), part: 'key' };
    }
    case 'none of': {
      const [first = '', ...others] = problem.keys;
      const message = `is missing; expected it, or ${others.join(' or ')} in its place`;
      return missingKey([...path, first], path, message);
    }
    case 'several of': {
      const [first = '', second = ''] = problem.keys;
      const message = `cannot be combined with ${first}; expected one of the two`;
      return { ...fault('invalid_value', [...path, second], message), part: 'key' };
    }
  }
}

function missingKey(path: KeyPath, at: KeyPath, message: string): Fault {
  return { ...fault('missing_key', path, message), at };
}

function unknownKey(key: string, known: readonly string[]): string {
  const reason = Object.hasOwn(refused, key) ? refused[key] : undefined;
  return reason ?? `unknown key${didYouMean(key, known) || `; the keys here are ${known.join(', ')}`}`;
}

const noLiterals = 'secrets are not allowed in the configuration; ';

function noLiteral(setting: string): string {
  return `${noLiterals}put the value in an environment variable, and its name in ${setting}`;
}

/** Keys that someone might try, and why they are not supported. */
const refused: Readonly<Record<string, string>> = {
  password: 'passwords in YAML are not supported; use ssh_key_file or an SSH agent',
  passphrase: noLiteral('ssh_key_passphrase_env'),
  ssh_key_passphrase: noLiteral('ssh_key_passphrase_env'),
  value: noLiteral('value_env'),
  token: noLiteral('value_env'),
  secret: noLiteral('the key that ends in _env'),
  access_key_id: noLiteral('access_key_id_env'),
  secret_access_key: noLiteral('secret_access_key_env'),
  file_mode: 'only local and SFTP destinations have modes, since objects and sources do not get one',
  directory_mode: 'only local and SFTP destinations have modes, since objects and sources do not get one',
  redis_url: noLiteral('redis_url_env'),
  force: 'no setting forces a publication; --force does, for one command',
  '<<': 'merge keys ("<<") are not supported; repeat the keys, or use an alias for a whole value',
};

/** Reports whether a map is text because there is no space after the colon, as in `listen:8080`. */
function isMapWithoutSpace(found: unknown, expected: string): found is string {
  return expected.startsWith('a map') && typeof found === 'string' && /^[\w-]+:\S/.test(found);
}

function addSpace(found: string, expected: string): string {
  const [key = ''] = found.split(':');
  // The text could be a secret, so only a key that exists is part of the message.
  const place = expected.split(/[\s,]+/).includes(key) ? ` in "${key}:"` : '';
  return `there is no space after the colon${place}; add one before the value`;
}

/** Describes a value for use in a message. If it could be a secret, it is not included. */
function describe(value: unknown, place: { path: KeyPath; isNumeric: boolean }): string {
  if (value === null || value === undefined) return 'nothing (null)';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (value === '') return 'an empty text';
  if (typeof value === 'string' && value.length > maxTextLength)
    return `a text of ${value.length} characters, more than the maximum of ${maxTextLength}`;
  const kind =
    typeof value === 'string' ? 'the text' : typeof value === 'number' ? 'the number' : 'the value';
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
    return 'something else';
  return mayBeSecret(value, place) ? `${kind} (not shown: it may be a secret)` : `${kind} ${quote(value)}`;
}

/**
 * Settings whose values can be shown in messages. Other values are not shown, except for numbers. If the file
 * has a string where there should be a map, it is not shown either, because maps are not in this list.
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
  { path, isNumeric }: { path: KeyPath; isNumeric: boolean },
): boolean {
  const key = path.findLast((step) => typeof step === 'string');
  if (path[0] === 'upload_tokens' && key !== 'pipelines') return true;
  // This depends on the kind of value rather than the name. A number with a typo is not a secret.
  if (
    isNumeric &&
    /^[-+]?\d{1,9}([.,]\d{1,9})?\s?[a-z%]{0,8}$|^(true|false|yes|no|on|off)$/i.test(String(value))
  )
    return false;
  if (key === undefined || !shown.has(key)) return true;
  return (
    typeof value === 'string' && (/[@?#&=]|-----BEGIN/.test(value) || value.length > 80 || looksRandom(value))
  );
}

/**
 * Reports whether a string could be a key or token: it is long, with uppercase and lowercase letters, digits,
 * and no spaces.
 */
function looksRandom(text: string): boolean {
  return /^[A-Za-z0-9+/_.~-]{20,}$/.test(text) && /[a-z]/.test(text) && /[A-Z]/.test(text) && /\d/.test(text);
}

function quote(value: string | number | boolean): string {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029]/g, '?');
}
