import type { JsonSchema } from '../../../api/http/route.ts';
import { metaSchema } from './meta-schema.ts';
import { geometry, listOf } from './fields.ts';

/** An answer as GeoJSON, of whatever family. */
export const collectionSchema: JsonSchema = {
  description: 'A collection of GeoJSON (RFC 7946) with two foreign members.',
  type: 'object',
  additionalProperties: false,
  required: ['type', 'data', 'features'],
  properties: {
    type: { const: 'FeatureCollection' },
    data: {
      description: 'The fields of `data` of JSON that hold for every feature; null where there is no record.',
      type: ['object', 'null'],
    },
    meta: metaSchema,
    features: listOf({
      type: 'object',
      additionalProperties: false,
      required: ['type', 'geometry', 'properties'],
      properties: {
        type: { const: 'Feature' },
        id: { description: 'Of the alert or the place, if it has one.', type: 'string' },
        geometry: {
          ...geometry,
          description:
            'Longitude first, WGS 84; outer rings counterclockwise, cut at the antimeridian. Null if it is not known.',
        },
        properties: { description: 'All other fields of it, as in JSON.', type: 'object' },
      },
    }),
  },
};
