import joiToJson from 'joi-to-json';
import { joiSchema } from '../lib/settings/joi-schema.ts';
import { configSchema } from './schema/schema.ts';

export type JsonSchema = Record<string, unknown>;

// The package is CommonJS and exports the function itself, which its types, written for bundlers, do not say.
const parse = joiToJson as unknown as typeof joiToJson.parse;

// The form of draft-07. The converter's own form (`oneOf`) leads to unclear messages.
const bothOrNone = (schema: JsonSchema, { peers }: { peers: string[] }): void => {
  schema['dependencies'] = Object.fromEntries(
    peers.map((name) => [name, peers.filter((other) => other !== name)]),
  );
};

const exactlyOne = (schema: JsonSchema, { peers }: { peers: string[] }): void => {
  const properties = schema['properties'] as JsonSchema;
  schema['oneOf'] = peers.map((name) => ({ required: [name], properties: { [name]: properties[name] } }));
};

/**
 * The JSON Schema of the configuration file, made from the schema of `loadConfig`. Uses draft-07, which
 * editors support best.
 */
export function configJsonSchema(): JsonSchema {
  const converted: unknown = parse(
    joiSchema(configSchema),
    'json',
    {},
    { logicalOpParser: { and: bothOrNone, xor: exactlyOne } },
  );
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $id: 'urn:waybill:config',
    title: 'waybill configuration',
    ...(mend(converted) as JsonSchema),
  };
}

/**
 * Corrects parts that the converter does not handle: Joi's own markers, its case for "none of the
 * variants", and repetitions.
 */
function mend(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(mend);
  if (typeof node !== 'object' || node === null) return node;
  const mended: JsonSchema = {};
  for (const [key, value] of Object.entries(node)) {
    // The converter repeats the patterns of a map by name as if they were names.
    if (key === 'properties' && 'patternProperties' in node) continue;
    // These are the places where keys are names of settings and not keywords.
    if (key === 'properties' || key === 'dependencies' || key === 'patternProperties')
      mended[key] = Object.fromEntries(
        Object.entries(value as JsonSchema).map(([name, schema]) => [name, mend(schema)]),
      );
    else if (key === 'default' && isDeepDefault(value)) continue;
    else if (key === 'anyOf' && Array.isArray(value))
      mended[key] = value.filter((item) => !isOpen(item)).map(mend);
    else
      mended[key] =
        key === 'default' || key === 'examples' || key === 'enum' || key === 'const' ? value : mend(value);
  }
  const message = messageOf(mended['title']);
  // VS Code and yaml-language-server show this message in place of the pattern.
  if (message !== undefined && 'pattern' in mended) mended['patternErrorMessage'] = message;
  return mended;
}

/** The message of a title such as `duration, 1s to 24h`. */
function messageOf(title: unknown): string | undefined {
  if (typeof title !== 'string') return undefined;
  const [kind = '', bounds] = title.split(', ');
  const message = messages[kind];
  return message === undefined || bounds === undefined ? message : `${message}; here from ${bounds}`;
}

/** The expected form of each kind of text, by its title. Shown when a text does not match the pattern. */
const messages: Readonly<Record<string, string>> = {
  duration: 'expected a duration: a whole number with a unit, such as 500ms, 30s, 15m, 24h or 7d',
  size: 'expected a size such as 512MiB, 2GB or 10KiB, or a whole number of bytes',
  'number or share': 'expected a whole number, or a share such as 20%',
  id: 'expected an id of at most 64 lower-case letters, digits, _ and -, beginning with a letter or digit',
  'variable name':
    'expected the name of an environment variable (letters, digits, _), never the secret itself',
  path: 'expected the path of a file or directory, on one line',
  'remote path': 'expected a path on the server, on one line',
  prefix: 'expected the beginning of keys, on one line',
  URL: 'expected an absolute URL, on one line',
  'URL path': 'expected a path such as /waybill/',
  host: 'expected the name or address of a host, without a port',
  'host:port': 'expected host:port such as 127.0.0.1:8080 or [::1]:8080',
  text: 'expected text on one line, without control characters',
};
/** `.default()` of a map means "the defaults of its keys", which JSON Schema has no word for. */
function isDeepDefault(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'special' in value;
}

/** Whether a schema is the catch-all for a wrong discriminator: the only map that accepts unknown keys. */
function isOpen(item: unknown): boolean {
  return (
    typeof item === 'object' &&
    item !== null &&
    'additionalProperties' in item &&
    item.additionalProperties === true
  );
}
