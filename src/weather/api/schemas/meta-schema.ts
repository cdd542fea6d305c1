import type { ResolvedPlace } from '../../family.ts';
import { unknownReasons, type UnknownPart } from '../../known.ts';
import type { JsonSchema } from '../../../api/http/route.ts';
import { count, instantOf, listOf, oneOf, record, text, textOrNull } from './fields.ts';

/** What an answer says beside its data. */
export const metaSchema: JsonSchema = {
  description: 'Only there if there is something to say.',
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  properties: {
    stale: { description: 'The data is older than it should be.', const: true },
    asOf: instantOf('When the newest of the data was measured, issued or fetched'),
    resolved: record<ResolvedPlace>(
      {
        kind: oneOf(['station', 'location'], 'What it is.'),
        id: text('Identifier.', 'KNYC'),
        name: textOrNull('Name.', 'New York City, Central Park'),
        distanceKm: { description: 'Great-circle distance from the point, in km.', type: 'number', minimum: 0 },
        bearingDeg: {
          description: 'From the point, in degrees clockwise from north.',
          type: 'integer',
          minimum: 0,
          maximum: 359,
        },
      },
      'The nearest place that has something to say, where a point was asked for.',
    ),
    unknown: listOf(
      record<UnknownPart>({
        field: text('Part of the record.', 'tornado'),
        reason: oneOf(
          unknownReasons,
          '`not_received`: the provider publishes it separately, and it has not arrived. `predictability_too_low`: the provider cannot say. `unreadable`: it arrived and cannot be read. `unplaced`: its outline is missing. `not_covered`: the provider says nothing of the place.',
        ),
      }),
      'Parts that are unknown. Null or an empty list there does not mean none.',
    ),
    otherIssues: listOf(
      record<{ field: string; issuedAt: string }>({
        field: text('Part of the record.', 'tornado'),
        issuedAt: instantOf('When the issue that it comes from was issued'),
      }),
      'Parts that come from another issue, since those of the newest have not arrived.',
    ),
    newerIssuedAt: instantOf('When a newer issue was issued of which too little has arrived'),
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
      'Fields that are null, and records that were left out, since they cannot be.',
    ),
  },
};
