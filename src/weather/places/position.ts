import type { Box, Position } from '../geometry.ts';

export type { Box, Position };

export const wholeEarth: Box = { west: -180, south: -90, east: 180, north: 90 };

/** One box, or the two on both sides of the antimeridian, each with its west before its east. Pure. */
export function partsOf(box: Box): readonly Box[] {
  return box.west <= box.east
    ? [box]
    : [
        { ...box, east: 180 },
        { ...box, west: -180 },
      ];
}

/** Where states and territories of the United States lie: enough to tell that a point was meant there. */
const unitedStates: readonly [Box, ...Box[]] = [
  { west: -125, south: 24, east: -66, north: 50 },
  { west: 172, south: 51, east: -129, north: 72 },
  { west: -179, south: 18, east: -154, north: 29 },
  { west: -68, south: 17, east: -64, north: 19 },
  { west: 144, south: 13, east: 147, north: 21 },
  { west: -172, south: -15, east: -168, north: -10 },
];

const [contiguousStates] = unitedStates;

/** Roughly: the Storm Prediction Center outlines these states alone. Pure. */
export function isInContiguousStates({ latitude, longitude }: Position): boolean {
  const { west, south, east, north } = contiguousStates;
  return longitude >= west && longitude <= east && latitude >= south && latitude <= north;
}

/** Roughly: within a box around each part of them. Pure. */
export function isInUnitedStates({ latitude, longitude }: Position): boolean {
  return unitedStates
    .flatMap(partsOf)
    .some(
      ({ west, south, east, north }) =>
        longitude >= west && longitude <= east && latitude >= south && latitude <= north,
    );
}
