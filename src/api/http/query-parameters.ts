import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { type Finding, finding, WaybillError } from '../../core/lib/errors.ts';
import { type ParameterMap, type Rule, toSentence, type ValuesOf } from '../../core/lib/parameters.ts';
import type { OpenApiParameter } from './route.ts';

/** The query parameters of a route. Used both for parsing and for the OpenAPI document. */
export interface QueryParameters<T> {
  parameters: OpenApiParameter[];
  /**
   * Parses the query string of a URL and fills in defaults. Throws an error with one finding per
   * parameter, if any are unknown, repeated, badly encoded, invalid, or in conflict with each other.
   */
  read: (url: string) => T;
}

export interface QueryOptions {
  /** Rules that involve several parameters. */
  rules?: readonly Rule[];
  /** The error code for invalid parameters. Default: `invalid_request`. */
  code?: ErrorCode;
}

/**
 * Creates parameters from `declared`, in that order. One of them may come from the last segment of the path.
 */
export function queryParameters<P extends ParameterMap>(
  declared: P,
  { rules = [], code = 'invalid_request' }: QueryOptions = {},
): QueryParameters<ValuesOf<P>> {
  const entries = Object.entries(declared);
  const ofQuery = entries.filter(([, { isInPath }]) => isInPath !== true);
  const ofPath = entries.filter(([, { isInPath }]) => isInPath === true);
  const byName = new Map(ofQuery);
  const known = ofQuery.map(([name]) => name).join(', ');
  return {
    parameters: entries.map(([name, { description, schema, expected, example, isRequired, isInPath }]) => ({
      name,
      in: isInPath === true ? 'path' : 'query',
      description,
      ...(isRequired === true || isInPath === true ? { required: true } : {}),
      // People read the words, not the pattern.
      schema: 'pattern' in schema ? { description: toSentence(expected), ...schema } : schema,
      example,
    })),
    read(url) {
      const { given, findings } = splitQuery(url);
      const values = Object.fromEntries(entries.map(([name, { absent }]) => [name, absent]));
      for (const [name, texts] of given) {
        const parameter = byName.get(name);
        const value = parameter?.parse(texts[0] ?? '');
        if (parameter === undefined)
          findings.push(
            fault(name, 'unknown_parameter', `is not a parameter of this route; it takes ${known}`),
          );
        else if (texts.length > 1)
          findings.push(fault(name, 'repeated_parameter', `is given ${texts.length} times`));
        else if (value === undefined)
          findings.push(fault(name, 'invalid_value', refusalOf(parameter, texts[0] ?? '')));
        else values[name] = value;
      }
      for (const [name, parameter] of ofPath) {
        const text = lastSegment(url);
        const value = text === null ? undefined : parameter.parse(text);
        if (value === undefined)
          findings.push(fault(name, 'invalid_value', refusalOf(parameter, text ?? '')));
        else values[name] = value;
      }
      for (const [name, { isRequired, expected }] of entries)
        if (isRequired === true && !given.has(name))
          findings.push(fault(name, 'missing_parameter', `is required: ${expected}`));
      for (const rule of rules) {
        const broken = rule(new Set(given.keys()), values);
        if (broken !== null) findings.push(fault(broken.name, 'conflicting_parameters', broken.message));
      }
      if (findings.length > 0) throw refusal(code, findings);
      return values as ValuesOf<P>;
    },
  };
}

function refusalOf({ expected, hint }: ParameterMap[string], text: string): string {
  const hinted = hint?.(text) ?? null;
  return `must be ${expected}${hinted === null ? '' : `; ${hinted}`}`;
}

/** A longer list of findings would not help anyone. */
const maxFindings = 50;
const maxSentences = 5;

function refusal(code: ErrorCode, findings: readonly Finding[]): WaybillError {
  const sentences = findings.slice(0, maxSentences).map(({ pointer, message }) => `"${pointer}" ${message}`);
  const more = findings.length > sentences.length ? `; and ${findings.length - sentences.length} more` : '';
  return new WaybillError(code, sentences.join('; ') + more, {
    hint: 'GET /openapi.json lists the parameters of every route',
    findings: findings.slice(0, maxFindings),
  });
}

/**
 * Used instead of Express's `req.query`, which turns repeated parameters into lists and accepts invalid
 * percent-encoding.
 */
function splitQuery(url: string): { given: Map<string, string[]>; findings: Finding[] } {
  const begin = url.indexOf('?');
  const given = new Map<string, string[]>();
  const findings: Finding[] = [];
  for (const part of begin === -1 ? [] : url.slice(begin + 1).split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = decoded(equals === -1 ? part : part.slice(0, equals));
    const value = decoded(equals === -1 ? '' : part.slice(equals + 1));
    if (name === null || value === null)
      findings.push(fault(name ?? part.slice(0, 80), 'invalid_encoding', 'is not valid percent-encoding'));
    else {
      const values = given.get(name);
      if (values === undefined) given.set(name, [value]);
      else values.push(value);
    }
  }
  return { given, findings };
}

/** Returns null if the segment has invalid percent-encoding. */
function lastSegment(url: string): string | null {
  const [path = ''] = url.split('?', 1);
  try {
    return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1));
  } catch {
    return null;
  }
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

function fault(name: string, code: string, message: string): Finding {
  return finding('error', code, message, { pointer: name.slice(0, 80) });
}
