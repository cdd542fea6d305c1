import type { JsonSchema } from '../../core/lib/parameters.ts';

/** Objects and lists below this level are left empty, so that an example stays readable. */
const maxDepth = 3;

/** Values by the name of the property, so that examples look like answers about a run without problems. */
const samples: Readonly<Record<string, string | number | null | readonly never[]>> = {
  run_id: 'maps.20261120T020434Z.k3f9q2x7ab',
  pipeline_id: 'maps',
  destination_id: 'web',
  notifier_id: 'hook',
  bundle_path: 'session-42',
  destination_path: 'session-42',
  idempotency_key: 'session-42-build-7',
  release: '20261121T101500Z-9f2c41aa',
  current: '20261121T101500Z-9f2c41aa',
  from: '20261120T020304Z-3663536f',
  to: '20261121T101500Z-9f2c41aa',
  trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
  outputs_written: 12,
  bytes_written: 48_210,
  outputs: 12,
  bytes: 48_210,
  rerun_of: null,
  channel: null,
  next_try_at: null,
  retry_until: null,
  last_error: null,
  paused: null,
  foreign_target: null,
  failed_deliveries: [],
  warnings: [],
};

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
  if (Array.isArray(choices)) return choices.includes('succeeded') ? 'succeeded' : (choices[0] as unknown);
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
      return format === 'date-time' ? '2026-11-20T02:04:34Z' : '…';
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
  return Object.fromEntries(
    shown.map(([name, each]) => [
      name,
      hasSample(name, each, schemas) ? samples[name] : exampleOf(each, schemas, depth + 1),
    ]),
  );
}

/** Reports whether there is a sample of this name that has a type of the schema. */
function hasSample(
  name: string,
  { type, $ref: ref, enum: choices, anyOf, oneOf }: JsonSchema,
  schemas: Readonly<Record<string, JsonSchema>>,
): boolean {
  if (!Object.hasOwn(samples, name) || choices !== undefined) return false;
  if (typeof ref === 'string') return hasSample(name, schemas[ref.split('/').at(-1) ?? ''] ?? {}, schemas);
  const some = (anyOf ?? oneOf) as readonly JsonSchema[] | undefined;
  if (some !== undefined) return some.some((each) => hasSample(name, each, schemas));
  const sample = samples[name];
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  if (sample === null) return types.includes('null');
  if (typeof sample === 'number') return types.includes('integer');
  return types.includes(Array.isArray(sample) ? 'array' : 'string');
}
