import { bboxClip } from '@turf/bbox-clip';
import { rewind } from '@turf/rewind';
import type { Geometry } from '../geometry.ts';
import { polygonsOf, type Polygon } from '../shape.ts';

/**
 * A geometry as RFC 7946 wants it: outer rings run counterclockwise and holes clockwise (3.1.6), and polygons
 * are cut at the antimeridian (3.1.9). Pure.
 *
 * @param geometry passed `geometryCheck`
 */
export function mapGeometry(geometry: Geometry): Geometry {
  if (geometry['type'] === 'Point') return geometry;
  const parts = polygonsOf(geometry).flatMap(cut);
  const [only] = parts;
  const shape =
    geometry['type'] === 'Polygon' && parts.length === 1 && only !== undefined
      ? { type: 'Polygon' as const, coordinates: only }
      : { type: 'MultiPolygon' as const, coordinates: parts };
  return rewind(shape) as unknown as Geometry;
}

/** The parts of a polygon on either side of the antimeridian; the polygon itself if it does not cross it. */
function cut({ rings, box }: Polygon): number[][][][] {
  const coordinates = rings.map((ring) => ring.map(([longitude, latitude]) => [longitude, latitude]));
  if (box.east <= 180) return [coordinates];
  return [0, 360].flatMap((by) => {
    const clipped = bboxClip({ type: 'Polygon', coordinates }, [by - 180, -90, by + 180, 90]);
    const parts = clipped.geometry.coordinates as number[][][];
    return parts.length === 0
      ? []
      : [parts.map((ring) => ring.map(([longitude = 0, latitude = 0]) => [longitude - by, latitude]))];
  });
}
