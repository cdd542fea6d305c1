import { compile, type JSONSchema } from 'json-schema-to-typescript';
import prettier from 'prettier';
import type { openApiDocument } from '../src/api/openapi/document.ts';

const banner = '/* Made from /openapi.json by `npm run generate`. */\n';
/** The schemas that the client needs. */
const read = [
  ...['RunRecord', 'RunSearch', 'Accepted', 'Plan', 'PartialUpload', 'MissingFiles'],
  ...['Releases', 'Release', 'ReleaseDiff', 'ReleaseSwitch'],
];

/** Generates `src/client/generated/api-types.ts` from the OpenAPI document. */
export async function apiTypes(document: ReturnType<typeof openApiDocument>): Promise<string> {
  const { components, paths } = JSON.parse(
    JSON.stringify(document).replaceAll('#/components/schemas/', '#/definitions/'),
  ) as {
    components: { schemas: Record<string, JSONSchema> };
    paths: Record<
      string,
      { get: { responses: Record<string, { content: Record<string, { schema: JSONSchema }> }> } }
    >;
  };
  const pipelines = paths['/v1/pipelines']?.get.responses['200']?.content['application/json']?.schema;
  if (pipelines === undefined) throw new Error('the document has no list of pipelines');
  const definitions = { ...components.schemas, PipelineList: pipelines };
  const schema: JSONSchema = {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(
      [...read, 'PipelineList'].map((name) => [name, { $ref: `#/definitions/${name}` }]),
    ),
    definitions: Object.fromEntries(
      Object.entries(definitions).map(([name, one]) => [name, tidied(one) as JSONSchema]),
    ),
  };
  const text = await compile(schema, 'ApiTypes', { bannerComment: banner, format: false });
  const file = 'src/client/generated/api-types.ts';
  return prettier.format(text, { ...(await prettier.resolveConfig(file)), filepath: file });
}

/**
 * Removes titles and array limits from a schema. Otherwise, each title would become the name of a type, and
 * the limits would lead to tuple types.
 */
function tidied(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(tidied);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.entries(schema).filter(
    ([key, value]) =>
      !(key === 'title' && typeof value === 'string') && key !== 'minItems' && key !== 'maxItems',
  );
  return Object.fromEntries(entries.map(([key, value]) => [key, tidied(value)]));
}
