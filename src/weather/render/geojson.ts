import type { Features } from '../family.ts';
import { mapGeometry } from './map-geometry.ts';
import type { AnswerMeta } from './meta.ts';

/**
 * A GeoJSON collection (RFC 7946) of what has a place. What is said of all of it stands beside `features` as
 * the foreign members `data` (null: there is no record) and `meta`, with the names of JSON. Pure.
 */
export function renderGeoJson(features: Features | null, meta: AnswerMeta | null = null): string {
  const { about, places } = features ?? { about: null, places: [] };
  return JSON.stringify({
    type: 'FeatureCollection',
    data: about,
    ...(meta === null ? {} : { meta }),
    features: places.map(({ id, geometry, properties }) => ({
      type: 'Feature',
      ...(id === null ? {} : { id }),
      geometry: geometry === null ? null : mapGeometry(geometry),
      properties,
    })),
  });
}
