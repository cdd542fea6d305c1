import { type Box, empty, type Geometry, type Known, known, type Position, unknown } from './values.ts';

/**
 * Reads polygons on the globe. Everything that uses geometries relies on `shapeOf`: the feeder, the search by
 * point and box, the map, and GeoJSON. An edge always goes the shorter way around the Earth, so polygons may
 * cross the antimeridian. A ring around a pole includes the pole. A collection is the union of its polygons.
 */

export type Point = readonly [longitude: number, latitude: number];
export type Ring = readonly Point[];

/**
 * The outline, followed by any holes. Across the antimeridian, longitudes continue beyond 180 instead of
 * jumping to -180.
 */
export interface Polygon {
  rings: readonly Ring[];
  box: Box;
}

const halfTurn = 180;
const turn = 360;

/**
 * Returns the polygons of a GeoJSON geometry, which can be a Polygon, a MultiPolygon, or a collection of
 * them. Returns `empty` if it has no coordinates. Returns `unknown` if it does not describe an area, has
 * rings that are not closed, or has positions that are not on Earth.
 */
export function shapeOf(geometry: unknown): Known<readonly Polygon[]> {
  const lists = ringListsOf(geometry);
  if (!lists?.every((rings) => rings.length > 0 && rings.every(isRing))) return unknown('unreadable');
  if (lists.length === 0) return empty;
  const polygons = lists.map((rings) => polygonOf(rings as Ring[])).filter(hasArea);
  return polygons.length === 0 ? unknown('unreadable') : known(polygons);
}

/** Returns the polygons of a geometry that has passed `geometryCheck`. A point does not have any. */
export function polygonsOf(geometry: Geometry): readonly Polygon[] {
  const shape = shapeOf(geometry);
  return shape.state === 'known' ? shape.value : [];
}

/**
 * Returns the average of the first polygon's corners. For a point, returns the point itself. Returns null for
 * anything else. The longitude is between -180 and 180.
 */
export function middleOf(geometry: unknown): Position | null {
  const { type, coordinates } = asMap(geometry);
  if (type === 'Point' && isPosition(coordinates))
    return { latitude: coordinates[1], longitude: wrapped(coordinates[0]) };
  const shape = shapeOf(geometry);
  const corners = shape.state === 'known' ? (shape.value[0]?.rings[0] ?? []).slice(1) : [];
  if (corners.length === 0) return null;
  const mean = (axis: 0 | 1): number =>
    corners.reduce((sum, corner) => sum + corner[axis], 0) / corners.length;
  return { latitude: mean(1), longitude: wrapped(mean(0)) };
}

/**
 * Returns the box, and the same box shifted by 360° to the west and to the east, in order to compare it with
 * polygons whose longitudes go beyond 180.
 */
export function turnsOf(box: Box): readonly Box[] {
  return [-turn, 0, turn].map((by) => ({ ...box, west: box.west + by, east: box.east + by }));
}

function ringListsOf(geometry: unknown): unknown[][] | null {
  const { type, coordinates, geometries } = asMap(geometry);
  if (type === 'Polygon' && Array.isArray(coordinates)) return coordinates.length === 0 ? [] : [coordinates];
  if (type === 'MultiPolygon' && Array.isArray(coordinates) && coordinates.every(Array.isArray))
    return coordinates as unknown[][];
  if (type !== 'GeometryCollection' || !Array.isArray(geometries)) return null;
  const lists = geometries.map(ringListsOf);
  return lists.includes(null) ? null : lists.flatMap((list) => list ?? []);
}

function asMap(value: unknown): { type?: unknown; coordinates?: unknown; geometries?: unknown } {
  return typeof value === 'object' && value !== null ? value : {};
}

function isRing(ring: unknown): ring is Ring {
  if (!Array.isArray(ring) || ring.length < 4 || !ring.every(isPosition)) return false;
  const first = ring[0] as Point;
  const last = ring.at(-1) as Point;
  return first[0] === last[0] && first[1] === last[1];
}

/**
 * Reports whether a value is a position on Earth. Longitudes may go up to 360, in order to cross the
 * antimeridian.
 */
export function isPosition(value: unknown): value is Point {
  if (!Array.isArray(value) || value.length < 2) return false;
  const [longitude, latitude] = value as unknown[];
  return isWithin(longitude, turn) && isWithin(latitude, 90);
}

function isWithin(value: unknown, bound: number): value is number {
  return typeof value === 'number' && Number.isFinite(value) && Math.abs(value) <= bound;
}

function hasArea({ box }: Polygon): boolean {
  return box.west < box.east && box.south < box.north;
}

function polygonOf([outer = [], ...holes]: readonly Ring[]): Polygon {
  const outline = startingWest(closedAroundPole(unrolled(outer)));
  const box = boxOf(outline);
  return { rings: [outline, ...holes.map((hole) => within(unrolled(hole), box))], box };
}

/** Makes longitudes continue beyond 180 where the ring crosses the antimeridian, instead of jumping. */
function unrolled(ring: Ring): Ring {
  const steps = ring.map(([longitude], index) => Math.abs(longitude - (ring[index - 1]?.[0] ?? longitude)));
  if (!steps.some((step) => step > halfTurn)) return ring;
  const across = continued(ring, turn);
  if (!steps.some((step) => step >= turn)) return across;
  // A step from 180 to -180 is ambiguous. Either the ring crosses the antimeridian, or it goes all the way
  // around the Earth.
  const along = continued(ring, turn - Number.EPSILON * turn);
  const { west, east } = boxOf(across);
  const crosses = !isAroundPole(across) && east > west;
  return crosses || areaOf(along) === 0 ? across : along;
}

/**
 * @param longest Steps that are longer than this are not jumps. They are edges along the border of the map.
 */
function continued(ring: Ring, longest: number): Ring {
  let by = 0;
  let before: number | undefined;
  return ring.map(([longitude, latitude]) => {
    const step = longitude - (before ?? longitude);
    if (Math.abs(step) > halfTurn && Math.abs(step) <= longest) by -= Math.sign(step) * turn;
    before = longitude;
    return [longitude + by, latitude] as const;
  });
}

function isAroundPole(ring: Ring): boolean {
  return Math.abs((ring.at(-1)?.[0] ?? 0) - (ring[0]?.[0] ?? 0)) >= halfTurn;
}

function areaOf(ring: Ring): number {
  return ring.reduce((sum, [x, y], index) => {
    const [nextX, nextY] = ring[index + 1] ?? [x, y];
    return sum + x * nextY - nextX * y;
  }, 0);
}

/**
 * A ring around a pole ends 360° from where it began. Closes it by going to the pole and back. Which pole it
 * is depends on the hemisphere that the ring is in.
 */
function closedAroundPole(ring: Ring): Ring {
  const first = ring[0];
  const last = ring.at(-1);
  if (first === undefined || last === undefined || !isAroundPole(ring)) return ring;
  const pole = ring.reduce((sum, [, latitude]) => sum + latitude, 0) < 0 ? -90 : 90;
  return [...ring, [last[0], pole], [first[0], pole], first];
}

/** Shifts a ring by a multiple of 360°, so that its western end is at least -180 and less than 180. */
function startingWest(ring: Ring): Ring {
  const { west } = boxOf(ring);
  const by = west >= -halfTurn && west < halfTurn ? 0 : -Math.floor((west + halfTurn) / turn) * turn;
  return by === 0 ? ring : shifted(ring, by);
}

/** Shifts a hole by a multiple of 360°, so that it is inside its outline. */
function within(hole: Ring, { west, east }: Box): Ring {
  const own = boxOf(hole);
  const by = [0, turn, -turn, 2 * turn, -2 * turn].find(
    (each) => own.west + each >= west && own.east + each <= east,
  );
  return by === undefined || by === 0 ? hole : shifted(hole, by);
}

function shifted(ring: Ring, by: number): Ring {
  return ring.map(([longitude, latitude]) => [longitude + by, latitude] as const);
}

function wrapped(longitude: number): number {
  return Math.abs(longitude) <= halfTurn ? longitude : longitude - Math.round(longitude / turn) * turn;
}

function boxOf(ring: Ring): Box {
  const box = { west: Infinity, south: Infinity, east: -Infinity, north: -Infinity };
  for (const [longitude, latitude] of ring) {
    box.west = Math.min(box.west, longitude);
    box.east = Math.max(box.east, longitude);
    box.south = Math.min(box.south, latitude);
    box.north = Math.max(box.north, latitude);
  }
  return box;
}
