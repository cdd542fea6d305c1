import { examineJson, type JsonLimits } from './examine.ts';
import type { JsonProblem } from './problems.ts';

/** A value, or the problems of an invalid text and the value recovered from it. */
export interface ParsedJson {
  /** undefined if nothing could be recovered. */
  value: unknown;
  problems: JsonProblem[];
}

/**
 * Parses with `JSON.parse`, and examines the text only if that fails. Measure the text first, because the
 * limits apply only to the examination. Duplicate keys in valid JSON are not reported. To detect them,
 * compare the number of properties with `colons` of `measureJson`. Pure.
 */
export function parseJson(text: string, limits: JsonLimits): ParsedJson {
  try {
    return { value: JSON.parse(text) as unknown, problems: [] };
  } catch (error) {
    const { value, problems } = examineJson(text, { limits });
    const broken = problems.filter(({ kind }) => kind !== 'duplicate_key');
    if (broken.length > 0) return { value, problems: broken };
    // `JSON.parse` decides whether a text is valid.
    const message = error instanceof Error ? error.message : String(error);
    return { value: undefined, problems: [{ kind: 'syntax', message, offset: 0, pointer: null }] };
  }
}
