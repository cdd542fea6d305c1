import type joi from 'joi';
import { joiSchema } from './joi-schema.ts';
import type { Setting, ValueRefusal } from './setting.ts';

/** The location of a value, as the keys and indexes from the top of the document. */
export type KeyPath = readonly (string | number)[];

/** A problem at some location in a document. `expected` describes a valid value for the setting there. */
export type SettingProblem = { path: KeyPath } & (
  | {
      kind: 'value';
      found: unknown;
      expected: string;
      isNumeric: boolean;
      refusal: ValueRefusal;
      choices: readonly string[];
    }
  | { kind: 'missing'; expected: string }
  | { kind: 'unknown key'; known: readonly string[] }
  | { kind: 'bad name'; expected: string }
  /** Only one of two keys is set, although they belong together. */
  | { kind: 'incomplete'; present: string; missing: string }
  | { kind: 'none of'; keys: readonly string[] }
  | { kind: 'several of'; keys: readonly string[] }
);

/**
 * Does not convert values, so `"8080"` is not a number, and reports all failures at once. The message of a
 * failure is the label of its schema, which describes a valid value.
 */
const options: joi.ValidationOptions = {
  abortEarly: false,
  convert: false,
  messages: { '*': '{#label}' },
  errors: { wrap: { label: false } },
};

/** Returns the value with defaults for everything that is not set, or all the problems with it. */
export function check<T>(
  setting: Setting<T>,
  value: unknown,
): { ok: true; value: T } | { ok: false; problems: SettingProblem[] } {
  const result = validate(joiSchema(setting), value);
  return result.error === undefined
    ? { ok: true, value: result.value as T }
    : { ok: false, problems: problemsOf(result.error.details) };
}

function validate(schema: joi.Schema, value: unknown): joi.ValidationResult {
  try {
    return schema.validate(value, options);
  } catch (error) {
    // joi passes failures as arguments to a function. A hundred thousand of them overflow the stack, so in
    // that case, report only the first one.
    if (!(error instanceof RangeError)) throw error;
    return schema.validate(value, { ...options, abortEarly: true });
  }
}

/**
 * Returns one problem for each location. If a value breaks several rules, one that comes with a reason wins.
 */
function problemsOf(details: readonly joi.ValidationErrorItem[]): SettingProblem[] {
  const problems = new Map<string, SettingProblem>();
  for (const item of details) {
    const problem = problemOf(item);
    const place = JSON.stringify([problem.path, problem.kind === 'incomplete' ? problem.missing : null]);
    if (!problems.has(place) || item.context?.['reason'] !== undefined) problems.set(place, problem);
  }
  return [...problems.values()];
}

function problemOf({ type, path, context = {}, message: expected }: joi.ValidationErrorItem): SettingProblem {
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
      const refusal: ValueRefusal = {
        reason: context['reason'] as string | undefined,
        expected: context['expected'] as string | undefined,
      };
      const isNumeric = context['isNumeric'] === true;
      return { kind: 'value', path, found: context.value, expected, isNumeric, refusal, choices };
    }
  }
}
