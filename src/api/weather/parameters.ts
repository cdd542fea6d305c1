import { WaybillError } from '../../core/errors.ts';
import { finding, type Finding } from '../../core/finding.ts';
import type { JsonSchema, Parameter } from '../http/openapi-types.ts';

/** One query parameter: what the document says of it, and how its text is read. */
export interface WeatherParameter<T> {
  description: string;
  schema: JsonSchema;
  example?: unknown;
  /** What it is where the request has none. */
  absent: T;
  /** Undefined where the text is not of this parameter; it is never empty. */
  read: (text: string) => T | undefined;
  /** As the end of `must be …`. */
  expected: string;
}

type Parameters<Q> = { [Name in keyof Q]: WeatherParameter<Q[Name]> };
/** A rule between parameters: a sentence about what is wrong. */
type Rule = (given: ReadonlySet<string>) => { name: string; message: string } | null;

export interface WeatherParameters<Q> {
  parameters: Parameter[];
  /** Reads the query of a URL. Throws `invalid_parameter` with everything that is wrong with it. */
  read: (url: string) => Q;
}

/** The parameters of one endpoint, by name. */
export function weatherParameters<Q extends object>(
  declared: Parameters<Q>,
  rules: readonly Rule[] = [],
): WeatherParameters<Q> {
  const entries = Object.entries(declared) as [keyof Q & string, WeatherParameter<Q[keyof Q]>][];
  const byName = new Map<string, WeatherParameter<Q[keyof Q]>>(entries);
  const known = entries.map(([name]) => name).join(', ');
  return {
    parameters: entries.map(([name, { description, schema, example }]) => ({
      name,
      in: 'query',
      description,
      schema,
      ...(example === undefined ? {} : { example }),
    })),
    read(url) {
      const { given, findings } = splitQuery(url);
      const query = Object.fromEntries(entries.map(([name, { absent }]) => [name, absent])) as Q;
      for (const [name, texts] of given) {
        const parameter = byName.get(name);
        if (parameter === undefined)
          findings.push(fault(name, 'unknown_parameter', `there is no such parameter; known are ${known}`));
        else if (texts.length > 1)
          findings.push(fault(name, 'repeated_parameter', `is given ${texts.length} times`));
        else {
          const value = texts[0] === '' ? undefined : parameter.read(texts[0] ?? '');
          if (value === undefined)
            findings.push(fault(name, 'invalid_value', `must be ${parameter.expected}`));
          else query[name as keyof Q] = value;
        }
      }
      for (const rule of rules) {
        const broken = rule(new Set(given.keys()));
        if (broken !== null) findings.push(fault(broken.name, 'conflicting_parameters', broken.message));
      }
      if (findings.length > 0) throw refusal(findings);
      return query;
    },
  };
}

/** At most one of these may be given. */
export function atMostOneOf(...names: string[]): Rule {
  return (given) => {
    const [first, second] = names.filter((name) => given.has(name));
    if (first === undefined || second === undefined) return null;
    return { name: second, message: `cannot stand beside "${first}": choose one of ${names.join(', ')}` };
  };
}

// A query of many wrong parameters is answered with no more findings than a person reads.
const mostFindings = 50;

function refusal(findings: readonly Finding[]): WaybillError {
  const told = findings.slice(0, mostFindings);
  const sentences = told.slice(0, 5).map(({ pointer, message }) => `"${pointer}" ${message}`);
  const more = findings.length > sentences.length ? `; and ${findings.length - sentences.length} more` : '';
  return new WaybillError('invalid_parameter', sentences.join('; ') + more, {
    hint: 'GET /openapi.json lists the parameters of every endpoint',
    findings: told,
  });
}

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
    else given.set(name, [...(given.get(name) ?? []), value]);
  }
  return { given, findings };
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
