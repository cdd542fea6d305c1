import type { JsonSchema } from '../../../api/http/route.ts';

/** JSON Schemas of weather records, held to the types of the records by the compiler. */

/** One schema for each field of `T`. */
export type SchemasOf<T extends object> = { [K in keyof T]-?: JsonSchema };

/** An object with exactly the fields of `T`, every one always present. */
export function record<T extends object>(fields: SchemasOf<T>, description?: string): JsonSchema {
  return {
    ...(description === undefined ? {} : { description }),
    type: 'object',
    additionalProperties: false,
    required: Object.keys(fields),
    properties: fields,
  };
}

export function orNull(schema: JsonSchema): JsonSchema {
  const { type, ...rest } = schema;
  return typeof type === 'string' && type !== 'object' && !('enum' in rest)
    ? { type: [type, 'null'], ...rest }
    : { anyOf: [schema, { type: 'null' }] };
}

export function listOf(items: JsonSchema, description?: string): JsonSchema {
  return { ...(description === undefined ? {} : { description }), type: 'array', items };
}

export function text(description: string, example?: string): JsonSchema {
  return { description, type: 'string', ...(example === undefined ? {} : { examples: [example] }) };
}

export function textOrNull(description: string, example?: string): JsonSchema {
  return orNull(text(description, example));
}

export function oneOf(values: readonly string[], description: string): JsonSchema {
  return { description, type: 'string', enum: values };
}

export function instantOf(description: string): JsonSchema {
  return {
    description: `${description}, in UTC to the second.`,
    type: 'string',
    format: 'date-time',
    pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$',
  };
}

export const timeZone = text('IANA name, for display.', 'America/New_York');

/** A quantity, null where unknown: its unit is what `units` names; `si` and `us` say which there are. */
export function quantity(description: string, si: string, us: string = si): JsonSchema {
  const unit = si === us ? `In ${si}.` : `In ${si}, with units=us in ${us}.`;
  return { description: `${description}. ${unit}`, type: ['number', 'null'] };
}

export function count(description: string, example?: number): JsonSchema {
  return { description, type: 'integer', ...(example === undefined ? {} : { examples: [example] }) };
}

export const flag = (description: string): JsonSchema => ({ description, type: 'boolean' });

export function unit(...names: string[]): JsonSchema {
  return { type: 'string', enum: names };
}

export const degreesNorth: JsonSchema = {
  description: 'Degrees north.',
  type: ['number', 'null'],
  minimum: -90,
  maximum: 90,
};
export const degreesEast: JsonSchema = {
  description: 'Degrees east.',
  type: ['number', 'null'],
  minimum: -180,
  maximum: 180,
};

export const geometry: JsonSchema = {
  description: 'GeoJSON (RFC 7946): longitude first, WGS 84.',
  type: ['object', 'null'],
  required: ['type', 'coordinates'],
  properties: {
    type: { type: 'string', enum: ['Point', 'Polygon', 'MultiPolygon'] },
    coordinates: { type: 'array' },
  },
};
