import type { JsonSchema } from '../core/lib/parameters.ts';
import type { Geometry, UtcTime } from './values.ts';

/*
 * Describes the fields of responses. Their JSON Schema and their TypeScript type come from the same
 * description, so they cannot diverge.
 */

/** Only exists at compile time. */
declare const valueType: unique symbol;

/** The JSON Schema of a field, with the TypeScript type `T` of its values. */
export type Field<T> = JsonSchema & { readonly [valueType]?: T };

export type FieldsOf<F extends Readonly<Record<string, JsonSchema>>> = {
  -readonly [K in keyof F]: DataOf<F[K]>;
};

/** The type of a field's values. */
export type DataOf<F> = F extends { readonly [valueType]?: infer T } ? T : never;

/** Declares a field with a custom schema. */
export function field<T>(schema: JsonSchema): Field<T> {
  return schema;
}

/** Declares an object. All of its fields are required, and no others are allowed. */
export function record<F extends Readonly<Record<string, JsonSchema>>>(
  fields: F,
  description?: string,
): Field<FieldsOf<F>> {
  return {
    ...(description === undefined ? {} : { description }),
    type: 'object',
    additionalProperties: false,
    required: Object.keys(fields),
    properties: fields,
  };
}

export function orNull<T>(schema: Field<T>): Field<T | null> {
  const { type, ...rest } = schema;
  return typeof type === 'string' && type !== 'object' && !('enum' in rest)
    ? { type: [type, 'null'], ...rest }
    : { anyOf: [schema, { type: 'null' }] };
}

export function listOf<T>(items: Field<T>, description?: string): Field<T[]> {
  return { ...(description === undefined ? {} : { description }), type: 'array', items };
}

export function text(description: string, example?: string): Field<string> {
  return { description, type: 'string', ...(example === undefined ? {} : { examples: [example] }) };
}

export function textOrNull(description: string, example?: string): Field<string | null> {
  return orNull(text(description, example));
}

export function oneOf<const V extends string>(values: readonly V[], description: string): Field<V> {
  return { description, type: 'string', enum: values };
}

export function instantOf(description: string): Field<UtcTime> {
  return {
    description: `${description}, in UTC to the second.`,
    type: 'string',
    format: 'date-time',
    pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$',
  };
}

export const timeZone = text('IANA name, for display.', 'America/New_York');

/**
 * Declares a measured value, which is null if unknown. `si` and `us` are the units in each of the two
 * systems.
 */
export function quantity(description: string, si: string, us: string = si): Field<number | null> {
  const unit = si === us ? `In ${si}.` : `In ${si}, with units=us in ${us}.`;
  return { description: `${description}. ${unit}`, type: ['number', 'null'] };
}

export function count(description: string, example?: number): Field<number> {
  return { description, type: 'integer', ...(example === undefined ? {} : { examples: [example] }) };
}

export const flag = (description: string): Field<boolean> => ({ description, type: 'boolean' });

export function unit<const V extends string>(...names: V[]): Field<V> {
  return { type: 'string', enum: names };
}

export const degreesNorth: Field<number | null> = {
  description: 'Degrees north.',
  type: ['number', 'null'],
  minimum: -90,
  maximum: 90,
};
export const degreesEast: Field<number | null> = {
  description: 'Degrees east.',
  type: ['number', 'null'],
  minimum: -180,
  maximum: 180,
};

export const geometry: Field<Geometry | null> = {
  description: 'GeoJSON (RFC 7946): longitude first, WGS 84.',
  type: ['object', 'null'],
  required: ['type', 'coordinates'],
  properties: {
    type: { type: 'string', enum: ['Point', 'Polygon', 'MultiPolygon'] },
    coordinates: { type: 'array' },
  },
};
