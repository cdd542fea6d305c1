import { WaybillError, describeFinding, type Finding } from '../lib/errors.ts';

const fixTheBundle = 'mend the bundle where the findings say; docs/manifest.md has the rules';

/** One error for all that is wrong with a bundle; `name` is how people know it. */
export function invalidBundle(
  name: string,
  findings: readonly Finding[],
  hint: string = fixTheBundle,
): WaybillError {
  const errors = findings.filter(({ severity }) => severity === 'error');
  const first = errors[0] === undefined ? '' : `: ${describeFinding(errors[0])}`;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new WaybillError('invalid_bundle', `${name} is not a valid bundle${first}${more}`, {
    hint,
    findings,
  });
}

export function hasErrors(findings: readonly Finding[]): boolean {
  return findings.some(({ severity }) => severity === 'error');
}
