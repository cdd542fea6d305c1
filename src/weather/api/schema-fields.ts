import { readFileSync } from 'node:fs';
import type { JsonSchema } from '../../api/http/route.ts';
import type { FamilyName } from '../families.ts';
import type { ResolvedPlace } from '../family.ts';
import { type UnknownPart, unknownReasons } from '../values.ts';

/** JSON Schemas of weather records. The compiler checks that they match the types of the records. */

/** One schema for each field of `T`. */
export type SchemasOf<T extends object> = { [K in keyof T]-?: JsonSchema };

/** An object with exactly the fields of `T`, all of them required. */
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

/** A quantity, or null if unknown. `si` and `us` are its unit in each unit system. */
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

/** The metadata of an answer. */
export const metaSchema: JsonSchema = {
  description: 'Present only if it has a member.',
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  properties: {
    stale: { description: 'The data is older than expected.', const: true },
    asOf: instantOf('Time at which the newest data was measured, issued or fetched'),
    resolved: record<ResolvedPlace>(
      {
        kind: oneOf(['station', 'location'], 'Kind of place.'),
        id: text('Identifier.', 'KNYC'),
        name: textOrNull('Name.', 'New York City, Central Park'),
        distanceKm: {
          description: 'Great-circle distance from the point, in km.',
          type: 'number',
          minimum: 0,
        },
        bearingDeg: {
          description: 'Bearing from the point, in degrees clockwise from north.',
          type: 'integer',
          minimum: 0,
          maximum: 359,
        },
      },
      'Nearest place with data, for a request with a point.',
    ),
    unknown: listOf(
      record<UnknownPart>({
        field: text('Part of the record.', 'tornado'),
        reason: oneOf(
          unknownReasons,
          '`not_received`: the provider publishes it separately, and it has not arrived. `predictability_too_low`: the provider cannot say. `unreadable`: it arrived and cannot be read. `unplaced`: its outline is missing. `not_covered`: the provider says nothing of the place.',
        ),
      }),
      'Unknown parts. null or an empty list there does not mean none.',
    ),
    otherIssues: listOf(
      record<{ field: string; issuedAt: string }>({
        field: text('Part of the record.', 'tornado'),
        issuedAt: instantOf('Issue time of the source of this part'),
      }),
      'Parts that come from an earlier issue, because the newest issue is incomplete.',
    ),
    newerIssuedAt: instantOf('Issue time of a newer issue that is too incomplete to use'),
    rejected: listOf(
      {
        type: 'object',
        additionalProperties: false,
        required: ['field', 'reason', 'count'],
        properties: {
          field: text('Table and column.', 'observations.temperature_c'),
          reason: text('Why.', 'not_finite'),
          count: count('How many.', 1),
        },
      },
      'Fields that are null and records that were left out because their stored values are invalid.',
    ),
  },
};

/** An answer as GeoJSON, for every family. */
export const collectionSchema: JsonSchema = {
  description: 'A collection of GeoJSON (RFC 7946) with two foreign members.',
  type: 'object',
  additionalProperties: false,
  required: ['type', 'data', 'features'],
  properties: {
    type: { const: 'FeatureCollection' },
    data: {
      description: 'The fields of `data` in JSON that apply to every feature, or null without a record.',
      type: ['object', 'null'],
    },
    meta: metaSchema,
    features: listOf({
      type: 'object',
      additionalProperties: false,
      required: ['type', 'geometry', 'properties'],
      properties: {
        type: { const: 'Feature' },
        id: { description: 'Id of the alert or place, if it has one.', type: 'string' },
        geometry: {
          ...geometry,
          description:
            'Longitude first, WGS 84; outer rings counterclockwise, cut at the antimeridian. null if unknown.',
        },
        properties: { description: 'All other fields, as in JSON.', type: 'object' },
      },
    }),
  },
};

/** A real answer of each family, with shortened lists and texts (`schemas/weather-examples.json`). */
export function weatherExamples(): Readonly<Record<FamilyName, unknown>> {
  const file = new URL('../../../schemas/weather-examples.json', import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as Record<FamilyName, unknown>;
}
