/**
 * Generates TypeScript types and two precompiled validators from `scene-map.schema.json`. Run `npm run
 * generate:scene-map` after changing the schema. A test checks that the files are up to date.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { Ajv2020, type AnySchemaObject } from 'ajv/dist/2020.js';
import standaloneCode from 'ajv/dist/standalone/index.js';
import { compile, type JSONSchema } from 'json-schema-to-typescript';
import prettier from 'prettier';

const directory = 'src/core/scene-map';
const banner =
  '/* Generated from scene-map.schema.json by scripts/generate-scene-map.ts: change the schema, not this file. */\n';

export interface GeneratedFile {
  path: string;
  text: string;
}

/** Returns the generated files. */
export async function sceneMapArtifacts(): Promise<GeneratedFile[]> {
  const schema = JSON.parse(await readFile(`${directory}/scene-map.schema.json`, 'utf8')) as AnySchemaObject;
  const declarations =
    banner +
    `import type { ErrorObject } from 'ajv';\n\n` +
    `declare const validate: { (value: unknown): boolean; errors?: ErrorObject[] | null };\nexport { validate };\n`;
  const files = [
    { path: `${directory}/generated/schema-types.ts`, text: await types(schema) },
    { path: `${directory}/generated/quick-validator.js`, text: validator(schema, false) },
    { path: `${directory}/generated/quick-validator.d.ts`, text: declarations },
    { path: `${directory}/generated/full-validator.js`, text: validator(schema, true) },
    { path: `${directory}/generated/full-validator.d.ts`, text: declarations },
  ];
  const options = await prettier.resolveConfig('package.json');
  return Promise.all(
    files.map(async ({ path, text }) => ({
      path,
      text: await prettier.format(text, { ...options, filepath: path }),
    })),
  );
}

async function types(schema: AnySchemaObject): Promise<string> {
  // Every title would become a type alias, so remove all except those that the documentation mentions.
  const named = structuredClone(schema) as JSONSchema;
  const withoutTitles = dropTitles(named, new Set(['Session scene map', 'Scene', 'Session scope']));
  const text = await compile(withoutTitles, 'SceneMap', {
    bannerComment: banner,
    additionalProperties: false,
    format: false,
  });
  return text.replaceAll('SessionSceneMap', 'SceneMap');
}

function dropTitles(node: JSONSchema, kept: ReadonlySet<string>): JSONSchema {
  const copy = { ...node };
  if (copy.title !== undefined && !kept.has(copy.title)) delete copy.title;
  // With `minItems`, the type would be a tuple, which is hard to read. The validator checks it anyway.
  delete copy.minItems;
  if (copy.properties) {
    copy.properties = Object.fromEntries(
      Object.entries(copy.properties).map(([name, child]) => [name, dropTitles(child, kept)]),
    );
  }
  if (copy.items && !Array.isArray(copy.items)) copy.items = dropTitles(copy.items, kept);
  return copy;
}

function validator(schema: AnySchemaObject, everyError: boolean): string {
  const ajv = new Ajv2020({ allErrors: everyError, verbose: everyError, code: { source: true, esm: true } });
  return banner + standaloneCode.default(ajv, ajv.compile(schema));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const { path, text } of await sceneMapArtifacts()) await writeFile(path, text);
}
