import type { JsonSchema } from '../../core/lib/parameters.ts';

/** Objects and lists below this level are left empty, so that an example stays readable. */
const maxDepth = 3;

/**
 * Returns an example value for a schema. At the top it has every property, and below only the required ones.
 *
 * @param schemas the schemas that `$ref` can name
 */
export function exampleOf(
  schema: JsonSchema,
  schemas: Readonly<Record<string, JsonSchema>>,
  depth = 0,
): unknown {
  const { $ref: ref, enum: choices, type, items, format } = schema;
  if (typeof ref === 'string') return exampleOf(schemas[ref.split('/').at(-1) ?? ''] ?? {}, schemas, depth);
  for (const key of ['example', 'const', 'default']) if (key in schema) return schema[key];
  if (Array.isArray(choices)) return choices[0];
  const [first] = [schema['oneOf'], schema['anyOf'], schema['allOf']].flatMap((each) => each ?? []);
  if (first !== undefined) return exampleOf(first as JsonSchema, schemas, depth);
  switch (Array.isArray(type) ? type[0] : type) {
    case 'object':
      return objectOf(schema, schemas, depth);
    case 'array':
      return depth >= maxDepth || items === undefined
        ? []
        : [exampleOf(items as JsonSchema, schemas, depth + 1)];
    case 'integer':
    case 'number':
      return schema['minimum'] ?? 0;
    case 'boolean':
      return false;
    case 'string':
      return format === 'date-time' ? '2026-01-20T18:00:00Z' : '…';
    default:
      return null;
  }
}

function objectOf(
  { properties = {}, required = [] }: JsonSchema,
  schemas: Readonly<Record<string, JsonSchema>>,
  depth: number,
): object {
  if (depth >= maxDepth) return {};
  const names = new Set(required as string[]);
  const shown = Object.entries(properties as Record<string, JsonSchema>).filter(
    ([name]) => depth === 0 || names.has(name),
  );
  return Object.fromEntries(shown.map(([name, each]) => [name, exampleOf(each, schemas, depth + 1)]));
}
