import { readFileSync } from 'node:fs';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { FamilyName } from '../families.ts';
import { count, geometry, instantOf, listOf, oneOf, record, text, textOrNull } from '../fields.ts';
import { unknownReasons } from '../values.ts';

/** JSON Schemas that the responses of all families have in common. */

export const metaSchema: JsonSchema = {
  description: 'Present only if it has a member.',
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  properties: {
    stale: { description: 'The data is older than expected.', const: true },
    asOf: instantOf('Time at which the newest data was measured, issued or fetched'),
    resolved: record(
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
      record({
        field: text('Part of the record.', 'tornado'),
        reason: oneOf(
          unknownReasons,
          '`not_received`: the provider publishes it separately, and it has not arrived. `predictability_too_low`: the provider cannot say. `unreadable`: it arrived and cannot be read. `unplaced`: its outline is missing. `not_covered`: the provider says nothing of the place.',
        ),
      }),
      'Unknown parts. null or an empty list there does not mean none.',
    ),
    otherIssues: listOf(
      record({
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

/** The schema of GeoJSON responses, for all families. */
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

/**
 * Returns an example response for each family, from `schemas/weather-examples.json`. They are real responses
 * with shortened lists and texts.
 */
export function weatherExamples(): Readonly<Record<FamilyName, unknown>> {
  const file = new URL('../../../schemas/weather-examples.json', import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as Record<FamilyName, unknown>;
}
