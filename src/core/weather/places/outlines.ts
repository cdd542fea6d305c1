import { setImmediate as breathe } from 'node:timers/promises';
import { booleanPointInPolygon } from '@turf/boolean-point-in-polygon';
import Flatbush from 'flatbush';
import type { Geometry } from '../geometry.ts';
import { partsOf, type Box, type Position } from './position.ts';

/** A polygon or multipolygon, and whose outline it is. */
export interface Outline {
  owners: readonly string[];
  geometry: Geometry;
}

/** Finds outlines among hundreds of thousands without looking at each. Made once, never changed. */
export interface OutlineIndex {
  /** The owners of the outlines that hold a point or have it on their edge, once each. */
  at(position: Position): ReadonlySet<string>;
  /** The owners of the outlines that have any point in common with a box. */
  within(box: Box): ReadonlySet<string>;
}

type Point = readonly [number, number];
type Ring = readonly Point[];
interface Polygon {
  owners: readonly string[];
  rings: readonly Ring[];
  box: Box;
}

/** After so many outlines the event loop gets its turn. */
const outlinesPerBreath = 1000;

/**
 * Edges are straight in longitude and latitude, and polygons do not cross the antimeridian (RFC 7946, 3.1.9):
 * what lies on both sides of it is a multipolygon. A pole is within what reaches it at any longitude. Changes
 * nothing; others get their turns while it is made.
 */
export async function outlineIndex(outlines: readonly Outline[]): Promise<OutlineIndex> {
  const polygons: Polygon[] = [];
  for (const [index, { owners, geometry }] of outlines.entries()) {
    if (index % outlinesPerBreath === 0) await breathe();
    for (const rings of polygonsOf(geometry)) polygons.push({ owners, rings, box: boxOf(rings[0] ?? []) });
  }
  if (polygons.length === 0) return { at: () => new Set(), within: () => new Set() };
  const tree = new Flatbush(polygons.length);
  for (const { box } of polygons) tree.add(box.west, box.south, box.east, box.north);
  await breathe();
  tree.finish();
  const found = (box: Box, isWanted: (polygon: Polygon) => boolean): Polygon[] =>
    tree
      .search(box.west, box.south, box.east, box.north)
      .flatMap((index) => polygons[index] ?? [])
      .filter(isWanted);
  return {
    at: (position) =>
      ownersOf(searchesOf(position).flatMap((box) => found(box, ({ rings }) => isIn(rings, position, box)))),
    within: (box) =>
      ownersOf(partsOf(box).flatMap((part) => found(part, ({ rings }) => meetsBox(rings, part)))),
  };
}

/** Whether a polygon or multipolygon holds a point or has it on its edge. Pure. */
export function contains(geometry: Geometry, position: Position): boolean {
  const searches = searchesOf(position);
  return polygonsOf(geometry).some((rings) => {
    const whole = boxOf(rings[0] ?? []);
    return searches.some((box) => overlap(whole, box) && isIn(rings, position, box));
  });
}

function overlap(a: Box, b: Box): boolean {
  return a.west <= b.east && b.west <= a.east && a.south <= b.north && b.south <= a.north;
}

/** The longitudes at which a point is to be looked for: one, on the antimeridian two, at a pole all. */
function searchesOf(position: Position): Box[] {
  const { latitude, longitude } = position;
  const parallel = { south: latitude, north: latitude };
  if (isAtPole(position)) return [{ ...parallel, west: -180, east: 180 }];
  const longitudes = Math.abs(longitude) === 180 ? [-180, 180] : [longitude];
  return longitudes.map((each) => ({ ...parallel, west: each, east: each }));
}

/** `box` is one of the searches of the point, and overlaps that of the polygon. */
function isIn(rings: readonly Ring[], position: Position, box: Box): boolean {
  return isAtPole(position) || holds(rings, box);
}

function isAtPole({ latitude }: Position): boolean {
  return Math.abs(latitude) === 90;
}

/** `box` is a point. */
function holds(rings: readonly Ring[], { west, south }: Box): boolean {
  return booleanPointInPolygon([west, south], {
    type: 'Polygon',
    coordinates: rings as unknown as number[][][],
  });
}

function meetsBox(rings: readonly Ring[], box: Box): boolean {
  return (
    rings.some((ring) =>
      ring.some((point, index) => index > 0 && crosses(ring[index - 1] ?? point, point, box)),
    ) || holds(rings, box)
  );
}

/** Whether any of a segment lies in a box (Liang and Barsky). */
function crosses([x0, y0]: Point, [x1, y1]: Point, { west, south, east, north }: Box): boolean {
  let [from, to] = [0, 1];
  const bounds: readonly Point[] = [
    [x0 - x1, x0 - west],
    [x1 - x0, east - x0],
    [y0 - y1, y0 - south],
    [y1 - y0, north - y0],
  ];
  for (const [step, room] of bounds) {
    if (step === 0 && room < 0) return false;
    if (step < 0) from = Math.max(from, room / step);
    if (step > 0) to = Math.min(to, room / step);
  }
  return from <= to;
}

function polygonsOf({ type, coordinates }: Geometry): readonly (readonly Ring[])[] {
  if (type === 'Polygon') return [coordinates as Ring[]];
  return type === 'MultiPolygon' ? (coordinates as Ring[][]) : [];
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

function ownersOf(polygons: readonly Polygon[]): ReadonlySet<string> {
  return new Set(polygons.flatMap(({ owners }) => owners));
}
