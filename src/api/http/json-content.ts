import type { JsonSchema, MediaType, Parameter } from './openapi-types.ts';

/** A JSON body; `schema` is a schema or the name of one of the components. */
export function jsonContent(schema: string | JsonSchema, example?: unknown): Record<string, MediaType> {
  const media = { schema: typeof schema === 'string' ? schemaRef(schema) : schema };
  return { 'application/json': example === undefined ? media : { ...media, example } };
}

/** A reference to one of the schemas of `components.ts`. */
export function schemaRef(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

export const pipelineIdParameter: Parameter = {
  name: 'pipeline_id',
  in: 'path',
  required: true,
  description: 'Id of a pipeline of the configuration.',
  schema: { type: 'string' },
  example: 'maps',
};

export const runIdParameter: Parameter = {
  name: 'run_id',
  in: 'path',
  required: true,
  description: 'Id of a run, as it was answered when the run was accepted.',
  schema: { type: 'string' },
  example: 'maps.20261120T020434Z.k3f9q2ab7x',
};
