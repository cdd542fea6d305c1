import type joi from 'joi';
import { joiSchema } from './joi-schema.ts';
import type { Refusal, Setting } from './setting.ts';

/** The keys and indexes that lead from the top of a document to a value. */
export type KeyPath = readonly (string | number)[];

/** A problem at one location in a document. `expected` is the phrase of the setting there. */
export type Problem = { path: KeyPath } & (
  | { kind: 'value'; found: unknown; expected: string; refusal: Refusal; choices: readonly string[] }
  | { kind: 'missing'; expected: string }
  | { kind: 'unknown key'; known: readonly string[] }
  | { kind: 'bad name'; expected: string }
  /** Two keys must be set together, but only one of them is present. */
  | { kind: 'incomplete'; present: string; missing: string }
  | { kind: 'none of'; keys: readonly string[] }
  | { kind: 'several of'; keys: readonly string[] }
);

/**
 * Values are not converted (`"8080"` is not a number), and all failures are reported together. A failure's
 * message is the label of the failed schema, which describes the expected value.
 */
const options: joi.ValidationOptions = {
  abortEarly: false,
  convert: false,
  messages: { '*': '{#label}' },
  errors: { wrap: { label: false } },
};

/** Returns the value with its defaults filled in, or every problem in it. */
export function check<T>(
  setting: Setting<T>,
  value: unknown,
): { ok: true; value: T } | { ok: false; problems: Problem[] } {
  const result = validate(joiSchema(setting), value);
  return result.error === undefined
    ? { ok: true, value: result.value as T }
    : { ok: false, problems: problemsOf(result.error.details) };
}

function validate(schema: joi.Schema, value: unknown): joi.ValidationResult {
  try {
    return schema.validate(value, options);
  } catch (error) {
    // joi passes failures on as arguments, and a hundred thousand of them exhaust the stack. In that case,
    // report only the first one.
    if (!(error instanceof RangeError)) throw error;
    return schema.validate(value, { ...options, abortEarly: true });
  }
}

/**
 * Returns one problem per location. If several rules for a value fail together, one with a reason takes
 * precedence.
 */
function problemsOf(details: readonly joi.ValidationErrorItem[]): Problem[] {
  const problems = new Map<string, Problem>();
  for (const item of details) {
    const problem = problemOf(item);
    const place = JSON.stringify([problem.path, problem.kind === 'incomplete' ? problem.missing : null]);
    if (!problems.has(place) || item.context?.['reason'] !== undefined) problems.set(place, problem);
  }
  return [...problems.values()];
}

function problemOf({ type, path, context = {}, message: expected }: joi.ValidationErrorItem): Problem {
  switch (type) {
    case 'any.required':
      return { kind: 'missing', path, expected };
    case 'object.unknown':
      return typeof context['expectedKey'] === 'string'
        ? { kind: 'bad name', path, expected: context['expectedKey'] }
        : { kind: 'unknown key', path, known: context['known'] as string[] };
    case 'object.and': {
      const [missing = ''] = context['missing'] as string[];
      const [present = ''] = context['present'] as string[];
      return { kind: 'incomplete', path, present, missing };
    }
    case 'object.missing':
      return { kind: 'none of', path, keys: context['peers'] as string[] };
    case 'object.xor':
      return { kind: 'several of', path, keys: context['present'] as string[] };
    default: {
      const choices = type === 'any.only' ? (context['valids'] as string[]) : [];
      const refusal: Refusal = {
        reason: context['reason'] as string | undefined,
        expected: context['expected'] as string | undefined,
      };
      return { kind: 'value', path, found: context.value, expected, refusal, choices };
    }
  }
}
