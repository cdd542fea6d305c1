import type { Finding } from '../../core/lib/errors.ts';
import type { FailedRequest } from '../http/answer/problem.ts';

/** What a problem page says about invalid parameters of an address. */
interface ParameterProblems {
  /** The name of a parameter is in backticks. */
  heading: string;
  parameters: {
    name: string;
    message: string;
    given: string | null;
    /** True if the value is wrong, and not empty. */
    isInvalid: boolean;
  }[];
  /** A link to the same page without these parameters; null if there is no such page. */
  withoutThem: string | null;
}

/** The codes of findings about query parameters, from `api/http/query-parameters.ts`. */
const parameterCodes: ReadonlySet<string> = new Set([
  'unknown_parameter',
  'repeated_parameter',
  'invalid_value',
  'missing_parameter',
  'conflicting_parameters',
  'invalid_encoding',
]);
const maxGivenChars = 80;

/** Returns the parameters that are wrong, with their values. null if the problem is a different one. */
export function parameterProblems(
  findings: readonly Finding[],
  { query, method }: FailedRequest,
): ParameterProblems | null {
  if (findings.length === 0 || !findings.every(({ code }) => parameterCodes.has(code))) return null;
  const given = [...new URLSearchParams(query)];
  // If a parameter is repeated, its first value is shown.
  const values = new Map(given.toReversed());
  const parameters = findings.map(({ pointer, message, code }) => {
    const name = pointer ?? '';
    const value = values.get(name);
    const isInvalid = code === 'invalid_value' && value !== undefined && value !== '';
    return { name, message, given: value === undefined ? null : shortened(value), isInvalid };
  });
  const wrong = new Set(parameters.map(({ name }) => name));
  const isInQuery = parameters.every(({ name }) => values.has(name));
  const others = new URLSearchParams(given.filter(([name]) => !wrong.has(name)));
  return {
    heading: headingOf(findings),
    parameters,
    // Relative to the address of the page, so that it cannot lead to another host.
    withoutThem: isInQuery && method === 'GET' ? `?${others.toString()}` : null,
  };
}

function headingOf(findings: readonly Finding[]): string {
  if (findings.length > 1) return 'Invalid parameters';
  const [{ code, pointer } = { code: '', pointer: null }] = findings;
  if (code === 'unknown_parameter') return 'Unknown parameter';
  if (code === 'missing_parameter') return 'Missing parameter';
  return code === 'invalid_value' ? `Invalid value for \`${pointer ?? ''}\`` : 'Invalid parameter';
}

function shortened(text: string): string {
  return text.length > maxGivenChars ? `${text.slice(0, maxGivenChars)}…` : text;
}
