import type { Position } from '../../src/weather/places/position.ts';

/**
 * A second implementation of the reader's geometry, with other formulas and without an index, for
 * comparison. It shares no code with the reader.
 */

const radiusKm = 6371.0088;

/** From the angle between two vectors. The reader uses the haversine formula. */
export function kilometresBetween(a: Position, b: Position): number {
  const [u, v] = [vectorOf(a), vectorOf(b)];
  const cross = Math.hypot(u.y * v.z - u.z * v.y, u.z * v.x - u.x * v.z, u.x * v.y - u.y * v.x);
  return radiusKm * Math.atan2(cross, u.x * v.x + u.y * v.y + u.z * v.z);
}

/** The direction from one point to another, projected on the directions north and east at the first. */
export function bearingBetween(a: Position, b: Position): number {
  const [lat, lon, v] = [radians(a.latitude), radians(a.longitude), vectorOf(b)];
  const east = -Math.sin(lon) * v.x + Math.cos(lon) * v.y;
  const north =
    -Math.sin(lat) * Math.cos(lon) * v.x - Math.sin(lat) * Math.sin(lon) * v.y + Math.cos(lat) * v.z;
  return ((Math.atan2(east, north) * 180) / Math.PI + 360) % 360;
}

interface Vector {
  x: number;
  y: number;
  z: number;
}

function vectorOf({ latitude, longitude }: Position): Vector {
  const [lat, lon] = [radians(latitude), radians(longitude)];
  return { x: Math.cos(lat) * Math.cos(lon), y: Math.cos(lat) * Math.sin(lon), z: Math.sin(lat) };
}

function radians(degrees: number): number {
  return (degrees * Math.PI) / 180;
}

type Point = readonly [number, number];
export type Rings = readonly (readonly Point[])[];

/**
 * The even-odd rule with a ray to the east, for the polygons of a geometry. Points on edges are undefined.
 */
export function isWithin(polygons: readonly Rings[], { latitude, longitude }: Position): boolean {
  if (Math.abs(latitude) === 90)
    return polygons.some(([outer = []]) => outer.some(([, y]) => y === latitude));
  const longitudes = Math.abs(longitude) === 180 ? [-180, 180] : [longitude];
  return longitudes.some((x) => polygons.some((rings) => crossings(rings, x, latitude) % 2 === 1));
}

function crossings(rings: Rings, x: number, y: number): number {
  let count = 0;
  for (const ring of rings)
    for (let index = 1; index < ring.length; index += 1) {
      const [[x0, y0], [x1, y1]] = [ring[index - 1] as Point, ring[index] as Point];
      if (y0 > y !== y1 > y && x < x0 + ((y - y0) / (y1 - y0)) * (x1 - x0)) count += 1;
    }
  return count;
}

/** The parts of polygons in a box: each is clipped at the box, one side at a time. */
export function areaWithin(
  polygons: readonly Rings[],
  west: number,
  south: number,
  east: number,
  north: number,
): number {
  const sides: ((point: Point) => number)[] = [
    ([x]) => x - west,
    ([x]) => east - x,
    ([, y]) => y - south,
    ([, y]) => north - y,
  ];
  const areaOf = (ring: readonly Point[]): number =>
    Math.abs(
      sides
        .reduce<readonly Point[]>((left, side) => cut(left, side), ring)
        .reduce((sum, [x, y], index, all) => {
          const [nextX, nextY] = all[(index + 1) % all.length] as Point;
          return sum + (x * nextY - nextX * y) / 2;
        }, 0),
    );
  return polygons.reduce(
    (sum, [outer = [], ...holes]) =>
      sum + areaOf(outer) - holes.reduce((less, hole) => less + areaOf(hole), 0),
    0,
  );
}

/** Sutherland and Hodgman: correct for the clipped area of every ring, but not for its edges. */
function cut(ring: readonly Point[], side: (point: Point) => number): readonly Point[] {
  return ring.flatMap((point, index) => {
    const before = ring[(index + ring.length - 1) % ring.length] as Point;
    const [from, to] = [side(before), side(point)];
    const share = from / (from - to);
    const at: Point = [
      before[0] + share * (point[0] - before[0]),
      before[1] + share * (point[1] - before[1]),
    ];
    if (from < 0 !== to < 0) return to < 0 ? [at] : [at, point];
    return to < 0 ? [] : [point];
  });
}
