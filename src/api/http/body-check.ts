import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { WaybillError } from '../../core/lib/errors.ts';
import type { JsonSchema } from './openapi-types.ts';

/**
 * Holds parsed bodies to a schema, which is compiled for the first of them: the daemon need not wait for that
 * to start. Throws `invalid_request` with the first thing that is wrong.
 */
export function bodyCheck(schema: JsonSchema, hint: string): (body: unknown) => void {
  let isValid: ValidateFunction | undefined;
  return (body) => {
    // Our schemas need not be held to the schema of schemas, which takes longer to compile than any of them.
    isValid ??= new Ajv2020({ meta: false, validateSchema: false }).compile(schema);
    if (!isValid(body)) throw refusal(isValid.errors?.[0], hint);
  };
}

function refusal(error: ErrorObject | undefined, hint: string): WaybillError {
  const { keyword, instancePath = '', message = 'is wrong', params } = error ?? {};
  const name = instancePath.slice(1).replaceAll('/', '.');
  const place = name === '' ? 'the body' : `the property "${name}"`;
  const unknown = (params as Record<string, unknown> | undefined)?.['additionalProperty'];
  const sentence =
    keyword === 'additionalProperties' ? `there is no property "${String(unknown)}"` : `${place} ${message}`;
  return new WaybillError('invalid_request', sentence, { hint });
}
