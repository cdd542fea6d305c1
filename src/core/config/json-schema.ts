import type { JsonSchema } from '../lib/parameters.ts';
import type { MapForm, Setting, ValueForm } from '../lib/settings/setting.ts';
import { configSchema } from './schema/schema.ts';

/**
 * Returns a JSON Schema for the configuration file. It is meant for editors, which work best with draft-07.
 */
export function configJsonSchema(): JsonSchema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $id: 'urn:waybill:config',
    title: 'waybill configuration',
    ...schemaOf(configSchema),
  };
}

function schemaOf({ form, about: { initial, description, example, title } }: Setting): JsonSchema {
  const { type, ...rest } = formSchema(form);
  // Shown in place of the pattern by VS Code and yaml-language-server.
  const message = 'pattern' in rest ? messageOf(title) : undefined;
  return {
    ...(type === undefined ? {} : { type }),
    ...(example === undefined ? {} : { examples: [example] }),
    ...(description === undefined ? {} : { description }),
    // There is no way to say "the defaults of its keys" in a JSON Schema.
    ...(initial === undefined || initial === 'of its keys' ? {} : { default: initial.value }),
    ...rest,
    ...(title === undefined ? {} : { title }),
    ...(message === undefined ? {} : { patternErrorMessage: message }),
  };
}

function formSchema(form: ValueForm): JsonSchema {
  switch (form.kind) {
    case 'text':
      return { type: 'string', ...(form.pattern === null ? {} : { pattern: form.pattern.source }) };
    case 'boolean':
      return { type: 'boolean' };
    case 'number':
      return {
        type: form.isWhole ? 'integer' : 'number',
        minimum: form.min,
        ...(form.max === null ? {} : { maximum: form.max }),
      };
    case 'choice':
      return form.values.length === 1 ? { const: form.values[0] } : { type: 'string', enum: form.values };
    case 'either':
      return { anyOf: form.forms.map(formSchema) };
    case 'list':
      return {
        type: 'array',
        ...(form.min === 0 ? {} : { minItems: form.min }),
        ...(form.isUnique === true ? { uniqueItems: true } : {}),
        items: schemaOf(form.items),
      };
    case 'map':
      return mapSchema(form);
    case 'map by name':
      return {
        type: 'object',
        additionalProperties: false,
        patternProperties: { [form.names.form.source]: schemaOf(form.values) },
      };
    case 'variants': {
      const maps = [...Object.values(form.maps), ...(form.otherwise === null ? [] : [form.otherwise])];
      return { anyOf: maps.map(schemaOf) };
    }
  }
}

function mapSchema({ keys, setTogether, oneOf }: MapForm): JsonSchema {
  const properties = Object.fromEntries(
    Object.entries(keys).map(([name, setting]) => [name, schemaOf(setting)]),
  );
  const required = Object.keys(keys).filter((name) => keys[name]?.about.isRequired === true);
  const together = setTogether.flatMap((group) =>
    group.map((name) => [name, group.filter((other) => other !== name)]),
  );
  const [exactlyOne] = oneOf;
  return {
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
    ...(together.length === 0 ? {} : { dependencies: Object.fromEntries(together) as object }),
    ...(exactlyOne === undefined
      ? {}
      : {
          oneOf: exactlyOne.map((name) => ({
            required: [name],
            properties: { [name]: properties[name] },
          })),
        }),
  };
}

/** Returns the message that goes with a title such as `duration, 1s to 24h`. */
function messageOf(title: unknown): string | undefined {
  if (typeof title !== 'string') return undefined;
  const [kind = '', bounds] = title.split(', ');
  const message = messages[kind];
  return message === undefined || bounds === undefined ? message : `${message}; here from ${bounds}`;
}

/** The message to show if a string does not match the pattern, by title. */
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
