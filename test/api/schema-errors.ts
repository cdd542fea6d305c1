import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { OpenApiDocument } from '../../src/api/http/route.ts';

/**
 * Checks values against schemas in an OpenAPI document. Each schema is compiled on first use, because
 * compiling all components takes longer than checking hundreds of values.
 *
 * @returns the schema errors of a value. Without a schema, no value is allowed.
 */
export function schemaErrors({
  components,
}: OpenApiDocument): (schema: object | undefined, value: unknown) => readonly ErrorObject[] {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  const compiled = new Map<string, ValidateFunction>();
  return (schema, value) => {
    const text = JSON.stringify(schema ?? false);
    const validate =
      compiled.get(text) ?? ajv.compile({ allOf: [JSON.parse(text) as object | boolean], components });
    compiled.set(text, validate);
    return validate(value) ? [] : (validate.errors ?? []);
  };
}
