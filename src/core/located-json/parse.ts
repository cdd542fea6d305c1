import { examineJson, type JsonLimits } from './examine.ts';
import type { JsonProblem } from './problems.ts';

/** A value, and the problems of a text that is not JSON; then the value is what could be understood of it. */
export interface ParsedJson {
  /** Undefined if nothing could be understood. */
  value: unknown;
  problems: JsonProblem[];
}

/**
 * `JSON.parse`, and a second, careful reading only if that fails. Measure the text first: the limits apply to
 * the second reading only. Duplicate keys are not looked for in valid JSON; compare the number of its
 * properties with `colons` of `measureJson`. Pure.
 */
export function parseJson(text: string, limits: JsonLimits): ParsedJson {
  try {
    return { value: JSON.parse(text) as unknown, problems: [] };
  } catch (error) {
    const { value, problems } = examineJson(text, { limits });
    const broken = problems.filter(({ kind }) => kind !== 'duplicate_key');
    if (broken.length > 0) return { value, problems: broken };
    // The parser of the runtime has the last word on what is JSON.
    const message = error instanceof Error ? error.message : String(error);
    return { value: undefined, problems: [{ kind: 'syntax', message, offset: 0, pointer: null }] };
  }
}
