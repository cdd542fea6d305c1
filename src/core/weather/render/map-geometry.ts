import { bboxClip } from '@turf/bbox-clip';
import { rewind } from '@turf/rewind';
import type { Geometry } from '../geometry.ts';

type Ring = number[][];
type Shape =
  | { type: 'Point'; coordinates: number[] }
  | { type: 'Polygon'; coordinates: Ring[] }
  | { type: 'MultiPolygon'; coordinates: Ring[][] };

/**
 * A geometry of the tables as RFC 7946 wants it on a map: outer rings run counterclockwise and holes
 * clockwise (3.1.6), and what crosses the antimeridian is cut there (3.1.9). What encloses a pole is not cut:
 * it has no side of the antimeridian. Pure.
 */
export function mapGeometry(geometry: Geometry): Geometry {
  // What the reader lets through is one of these: `geometryCheck`.
  const shape = geometry as unknown as Shape;
  if (shape.type === 'Point') return geometry;
  const whole = shape.type === 'Polygon' ? [shape.coordinates] : shape.coordinates;
  const parts = whole.flatMap(cut);
  const [only] = parts;
  const cutShape: Shape =
    shape.type === 'Polygon' && parts.length === 1 && only !== undefined
      ? { type: 'Polygon', coordinates: only }
      : { type: 'MultiPolygon', coordinates: parts };
  return rewind(cutShape) as unknown as Geometry;
}

/** The parts of one polygon on either side of the antimeridian; itself if it does not cross it. */
function cut(polygon: Ring[]): Ring[][] {
  const [outer = [], ...holes] = polygon;
  if (!crosses(outer)) return [polygon];
  const unrolled = unroll(outer);
  const [first, last] = [unrolled[0]?.[0], unrolled.at(-1)?.[0]];
  if (first !== last) return [polygon];
  const range = longitudesOf(unrolled);
  const coordinates = [unrolled, ...holes.map((hole) => shifted(unroll(hole), range))];
  return [-360, 0, 360].flatMap((turn) => {
    const clipped = bboxClip({ type: 'Polygon', coordinates }, [turn - 180, -90, turn + 180, 90]);
    const rings = clipped.geometry.coordinates as Ring[];
    return rings.length === 0 ? [] : [rings.map((ring) => turned(ring, -turn))];
  });
}

/** Whether an edge is shorter across the antimeridian. The edge of a map of the whole Earth is none. */
function crosses(ring: Ring): boolean {
  return ring.some(([longitude = 0], index) => {
    const span = Math.abs(longitude - (ring[index - 1]?.[0] ?? longitude));
    return span > 180 && span < 360;
  });
}

/** The same ring with longitudes that go on beyond 180 degrees in place of a leap, and without heights. */
function unroll(ring: Ring): Ring {
  let turn = 0;
  let before: number | undefined;
  return ring.map(([longitude = 0, latitude = 0]) => {
    const leap = longitude - (before ?? longitude);
    if (Math.abs(leap) > 180) turn -= Math.sign(leap) * 360;
    before = longitude;
    return [longitude + turn, latitude];
  });
}

function longitudesOf(ring: Ring): { least: number; most: number } {
  const all = ring.map(([longitude = 0]) => longitude);
  return { least: Math.min(...all), most: Math.max(...all) };
}

/** A hole on the same turn as the ring that it lies in. */
function shifted(hole: Ring, { least, most }: { least: number; most: number }): Ring {
  const own = longitudesOf(hole);
  const turn = own.most > most ? -360 : own.least < least ? 360 : 0;
  return turned(hole, turn);
}

function turned(ring: Ring, turn: number): Ring {
  return ring.map(([longitude = 0, latitude = 0]) => [longitude + turn, latitude]);
}
