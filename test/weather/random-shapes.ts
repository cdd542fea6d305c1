import type { Box } from '../../src/weather/places/position.ts';
import type { Geometry } from '../../src/weather/values.ts';

/**
 * Random polygons on the sphere, half of them near the antimeridian and a fifth around a pole, and an oracle
 * for them. It shares no code with the program, which unrolls longitudes and looks east.
 */

export type Point = [longitude: number, latitude: number];

export interface RandomShape {
  rings: Point[][];
  geometry: Geometry;
  /** A point in or near it, at least a tenth of a degree from the poles. */
  near: () => Point;
}

/** @param random numbers from 0 to below 1 */
export function randomShape(random: () => number): RandomShape {
  const between = (least: number, most: number): number => least + random() * (most - least);
  const isAroundPole = random() < 0.2;
  const side = random() < 0.5 ? 1 : -1;
  const middle: Point = [random() < 0.5 ? between(160, 200) : between(-180, 180), between(-55, 55)];
  const corners = 4 + Math.floor(random() * 8);
  const size = between(1, 30);
  const star = (scale: number): Point[] => {
    const points = Array.from({ length: corners }, (_, index): Point => {
      const angle = (2 * Math.PI * index) / corners;
      const reach = size * scale * between(0.6, 1);
      return isAroundPole
        ? [wrapped(middle[0] + (360 * index) / corners), side * (90 - reach)]
        : [wrapped(middle[0] + reach * Math.cos(angle)), middle[1] + reach * Math.sin(angle)];
    });
    return [...points, points[0]!];
  };
  const rings = random() < 0.3 && !isAroundPole ? [star(1), star(0.3)] : [star(1)];
  const coordinates = random() < 0.5 ? rings : rings.map((ring) => ring.toReversed());
  return {
    rings,
    geometry: { type: 'Polygon', coordinates },
    near: () => {
      const [x, y]: Point = isAroundPole
        ? [between(-180, 180), side * between(90 - size, 90)]
        : [wrapped(middle[0] + between(-size, size)), middle[1] + between(-size, size)];
      return [x, Math.max(-89.9, Math.min(89.9, y))];
    },
  };
}

/**
 * Whether rings contain a point: counts the edges that cross the meridian of the point north of it. Every
 * edge takes the shorter way around the Earth. A ring around the Earth contains the pole on its side of the
 * equator.
 */
export function holds(rings: readonly Point[][], [x, y]: Point): boolean {
  return rings.reduce((isIn, ring) => isIn !== ringHolds(ring, x, y), false);
}

function ringHolds(ring: readonly Point[], x: number, y: number): boolean {
  let isIn = false;
  let around = 0;
  let latitudes = 0;
  for (const [[x0, y0], [x1, y1]] of edgesOf(ring)) {
    const step = shortest(x1 - x0);
    around += step;
    latitudes += y1;
    const from = shortest(x0 - x);
    const to = from + step;
    // The meridian of the point is at 0, and again at 360.
    for (const at of [-360, 0, 360])
      if (from > at !== to > at && y0 + ((at - from) / step) * (y1 - y0) > y) isIn = !isIn;
  }
  const holdsNorthPole = Math.abs(around) > 180 && latitudes >= 0;
  return isIn !== holdsNorthPole;
}

/** Whether rings and a box have a point in common: an edge enters it, or they contain its corner. */
export function meets(rings: readonly Point[][], { west, south, east, north }: Box): boolean {
  const width = (((east - west) % 360) + 360) % 360;
  const enters = ([[x0, y0], [x1, y1]]: readonly [Point, Point]): boolean =>
    [-360, 0, 360].some((turn) => {
      const from = shortest(x0 - west) + turn;
      const spans = [spanWithin(from, shortest(x1 - x0), 0, width), spanWithin(y0, y1 - y0, south, north)];
      return Math.max(0, ...spans.map(([start]) => start)) <= Math.min(1, ...spans.map(([, end]) => end));
    });
  return rings.some((ring) => edgesOf(ring).some(enters)) || holds(rings, [west, south]);
}

/** The part of a line, from 0 to 1, in which `from + part × step` is between both bounds. */
function spanWithin(from: number, step: number, least: number, most: number): [number, number] {
  if (step === 0) return from >= least && from <= most ? [0, 1] : [1, 0];
  const [a, b] = [(least - from) / step, (most - from) / step];
  return [Math.min(a, b), Math.max(a, b)];
}

function edgesOf(ring: readonly Point[]): (readonly [Point, Point])[] {
  return ring.slice(1).map((point, index) => [ring[index]!, point] as const);
}

function shortest(degrees: number): number {
  return ((((degrees + 180) % 360) + 360) % 360) - 180;
}

export const wrapped = (longitude: number): number => shortest(longitude);
