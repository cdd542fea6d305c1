import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { OpenApiDocument } from '../../src/api/http/route.ts';

/**
 * Holds values to schemas that stand in an OpenAPI document. A schema is compiled when it is first asked for:
 * with all the components that takes longer than hundreds of values.
 *
 * @returns what a value has that its schema does not allow; no schema allows nothing
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
