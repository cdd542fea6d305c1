import type { IncomingMessage } from 'node:http';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { WaybillError } from '../../core/errors.ts';
import type { JsonSchema, Parameter } from './openapi-types.ts';

/**
 * The query parameters of a route: what the document says of them, and the reader that holds requests to it.
 */
export interface QueryParameters<T> {
  parameters: Parameter[];
  /**
   * The parameters as the schemas' types, defaults filled in. Throws `invalid_request` for a wrong or an
   * unknown one.
   */
  read: (req: IncomingMessage) => T;
}

/**
 * Each parameter by its name. `default` in a schema is filled in; the caller's `T` must say what the schemas
 * say.
 */
export function queryParameters<T>(
  declared: Record<string, { description: string; schema: JsonSchema; example?: unknown }>,
): QueryParameters<T> {
  const names = Object.keys(declared);
  const properties = Object.fromEntries(Object.entries(declared).map(([name, { schema }]) => [name, schema]));
  // What a URL holds is text: `20` is the number where the schema asks for one.
  const ajv = new Ajv2020({ coerceTypes: true, useDefaults: true });
  const isValid = ajv.compile<T>({ type: 'object', additionalProperties: false, properties });
  return {
    parameters: Object.entries(declared).map(([name, rest]) => ({ name, in: 'query', ...rest })),
    read: (req) => {
      const query = queryOf(req);
      if (isValid(query)) return query;
      throw refusal(
        'parameter',
        isValid.errors,
        `this route knows ${names.map((name) => `?${name}=`).join(', ')}`,
      );
    },
  };
}

/** Holds parsed bodies to a schema. Throws `invalid_request` with the first thing that is wrong. */
export function bodyCheck(schema: JsonSchema, hint: string): (body: unknown) => void {
  const isValid = new Ajv2020().compile(schema);
  return (body) => {
    if (!isValid(body)) throw refusal('property', isValid.errors, hint);
  };
}

/**
 * Not `req.query`: there a parameter that is given twice and one that is a list look the same as what they
 * are not.
 */
function queryOf(req: IncomingMessage): unknown {
  const search = new URLSearchParams((req.url ?? '').split('?').slice(1).join('?'));
  const query = new Map<string, unknown>();
  for (const [name, value] of search) query.set(name, query.has(name) ? [query.get(name), value] : value);
  return Object.fromEntries(query);
}

function refusal(what: string, errors: ErrorObject[] | null | undefined, hint: string): WaybillError {
  const { keyword, instancePath, message, params } = errors?.[0] as ErrorObject<
    string,
    Record<string, unknown>
  >;
  const name = instancePath.slice(1).replaceAll('/', '.');
  const place = name === '' ? `the ${what === 'parameter' ? 'query' : 'body'}` : `the ${what} "${name}"`;
  const sentence =
    keyword === 'additionalProperties'
      ? `there is no ${what} "${String(params['additionalProperty'])}"`
      : keyword === 'enum'
        ? `${place} must be one of ${(params['allowedValues'] as unknown[]).map(String).join(', ')}`
        : `${place} ${message ?? 'is wrong'}`;
  return new WaybillError('invalid_request', sentence, { hint });
}
