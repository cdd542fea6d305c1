import { type Finding, finding } from '../lib/errors.ts';
import { nearest } from '../lib/text.ts';
import type { KeyPath, YamlText } from './yaml-text.ts';

/** A problem of the document, located by its path. `findingsOf` adds line and column. */
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
  /** The position to report if it differs from `path`: a missing key has no position of its own. */
  at?: KeyPath;
  part: 'key' | 'value';
  message: string;
}

/** An error in the value at a path. */
export function fault(code: Fault['code'], path: KeyPath, message: string): Fault {
  return { severity: 'error', code, path, part: 'value', message };
}

/** `; did you mean "local"?`, or empty if no known name is similar. */
export function didYouMean(found: unknown, known: readonly string[]): string {
  const guess = typeof found === 'string' ? nearest(found, known) : undefined;
  return guess === undefined ? '' : `; did you mean "${guess}"?`;
}

/** The faults with their lines and columns, in the order of the file. */
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

/** `pipelines[0].destinations[1].path`; the document itself is ''. */
export function keyPath(path: KeyPath): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(step)) return `${text}[${JSON.stringify(step.slice(0, 64))}]`;
    return text === '' ? step : `${text}.${step}`;
  }, '');
}
