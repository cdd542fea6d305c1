import type { JsonSchema } from '../../core/lib/parameters.ts';

/** Returns the type of a parameter in a few words: `integer`, `string (date-time)`. */
export function typeOf({ type, format, anyOf, const: only }: JsonSchema): string {
  const formats = ((anyOf ?? [{ format }]) as JsonSchema[]).flatMap((one) => one['format'] ?? []);
  const name = typeof type === 'string' ? type : typeof only;
  return formats.length === 0 ? name : `${name} (${formats.map(String).join(' or ')})`;
}

/**
 * Returns which values of a parameter are valid, in sentences: "1 to 500. Default: `50`." A pattern is
 * replaced with the description of its schema. Returns an empty string if there is nothing to say.
 */
export function limitsOf(schema: JsonSchema): string {
  const { description, enum: choices, const: only, default: preset, pattern } = schema;
  const sentences = [
    ...(typeof description === 'string' ? [description] : patternOf(pattern)),
    ...(Array.isArray(choices)
      ? [
          `One of ${choices
            .filter((one) => one !== '')
            .map(code)
            .join(', ')}.`,
        ]
      : []),
    ...(only === undefined ? [] : [`Always ${code(only)}.`]),
    ...rangeOf(schema['minimum'], schema['maximum'], ''),
    ...rangeOf(schema['minLength'], schema['maxLength'], ' characters'),
    ...(preset === undefined ? [] : [`Default: ${code(preset)}.`]),
  ];
  return sentences.join(' ');
}

function patternOf(pattern: unknown): string[] {
  return pattern === undefined ? [] : [`Must match ${code(pattern)}.`];
}

function rangeOf(min: unknown, max: unknown, unit: string): string[] {
  const [least, most] = [min, max].map((limit) =>
    typeof limit === 'number' ? limit.toLocaleString('en-US') : undefined,
  );
  if (least !== undefined && most !== undefined) return [`${least} to ${most}${unit}.`];
  if (least !== undefined) return [`At least ${least}${unit}.`];
  return most === undefined ? [] : [`At most ${most}${unit}.`];
}

function code(value: unknown): string {
  return `\`${String(value)}\``;
}
