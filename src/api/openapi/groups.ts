import { STATUS_CODES } from 'node:http';
import { errorTable } from '../../core/lib/error-codes.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { statusOf } from '../http/answer/error-status.ts';
import type { OpenApiDocument } from '../http/route.ts';
import { publicCodes } from './components.ts';
import { type Inline, inlines } from './inlines.ts';

/** The error codes and schemas of the API reference, in groups. */

/** Returns the errors that clients can get, grouped by status. */
export function errorViews(): object[] {
  return [...new Set(publicCodes.map((code) => statusOf[code]))]
    .toSorted((a, b) => a - b)
    .map((status) => ({
      status,
      name: STATUS_CODES[status] ?? '',
      codes: publicCodes
        .filter((code) => statusOf[code] === status)
        .map((code) => ({
          code,
          about: inlines(errorTable[code].about),
          retryable: errorTable[code].retryable,
        })),
    }));
}

interface SchemaView {
  name: string;
  about: Inline[];
  text: string;
  /** The schemas that are parts of this one, such as `RunRecordError` in `RunRecord`. */
  parts: SchemaView[];
}

/** Returns the schemas of bodies. Each one has the schemas whose names start with its own as its parts. */
export function schemaViews({ components: { schemas }, paths }: OpenApiDocument): SchemaView[] {
  const used = new Set(JSON.stringify(paths).match(/(?<=#\/components\/schemas\/)\w+/g));
  const names = Object.keys(schemas);
  const ownerOf = (name: string): string | undefined =>
    used.has(name)
      ? undefined
      : names
          .filter((one) => used.has(one) && name.startsWith(one))
          .toSorted((a, b) => b.length - a.length)[0];
  const viewOf = (name: string): SchemaView => ({
    name,
    about: inlines(aboutOf(name, schemas[name], paths)),
    text: JSON.stringify(schemas[name], null, 2),
    parts: names.filter((part) => ownerOf(part) === name).map(viewOf),
  });
  return names.filter((name) => ownerOf(name) === undefined).map(viewOf);
}

/** Returns the description of a schema. Without one, returns the requests that use it. */
function aboutOf(name: string, schema: JsonSchema | undefined, paths: OpenApiDocument['paths']): string {
  const about = schema?.['description'];
  if (typeof about === 'string') return about;
  return Object.values(paths)
    .flatMap((item) => Object.values(item))
    .filter((operation) => JSON.stringify(operation).includes(`"#/components/schemas/${name}"`))
    .map(({ summary }) => summary)
    .join(', ');
}
