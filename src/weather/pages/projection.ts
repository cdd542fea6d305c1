import { geoAlbersUsa } from 'd3-geo';
import { polygonsOf, type Ring } from '../shape.ts';
import type { Geometry } from '../values.ts';

/** A position on the map, in pixels of an image that is 975 wide and 610 high. */
export type Point = readonly [x: number, y: number];

export const mapSize = { width: 975, height: 610 };

// Keep in sync with `scripts/state-outlines.ts`.
const albers = geoAlbersUsa().scale(1300).translate([487.5, 305]);

/**
 * Projects coordinates onto the map. Returns null for places that are not on it, such as Pacific islands
 * other than Hawaii.
 */
export function projected(longitude: number, latitude: number): Point | null {
  return albers([longitude, latitude]);
}

/**
 * Converts a polygon or multipolygon to SVG path data, which is empty if no part of it is on the map. Points
 * less than `least` pixels from the previous one are left out. Long edges follow the curve of the Earth.
 * Everything beyond the edge of the map is cut off.
 *
 * @param geometry GeoJSON that passed `geometryCheck`
 */
export function outlinePath(geometry: Geometry, least: number): string {
  return polygonsOf(geometry)
    .map(({ rings }) => ringsPath(rings, least))
    .join('');
}

function ringsPath(rings: readonly Ring[], least: number): string {
  const digits = least < 0.5 ? 2 : 1;
  let path = '';
  for (const ring of rings) {
    const kept: Point[] = [];
    for (const [longitude, latitude] of withSteps(ring)) {
      const point = projected(longitude, latitude);
      const last = kept.at(-1);
      if (point === null) continue;
      if (last === undefined || Math.hypot(point[0] - last[0], point[1] - last[1]) >= least) kept.push(point);
    }
    if (kept.length > 2)
      path += `M${kept.map(([x, y]) => `${Number(x.toFixed(digits))},${Number(y.toFixed(digits))}`).join('L')}Z`;
  }
  return path;
}

const maxStepDeg = 0.5;

/** Yields the points of a ring. Adds intermediate points on long edges. */
function* withSteps(ring: Ring): Generator<readonly [longitude: number, latitude: number]> {
  let before: Ring[number] | undefined;
  for (const corner of ring) {
    if (before !== undefined) {
      const [east, north] = [corner[0] - before[0], corner[1] - before[1]];
      const steps = Math.ceil(Math.max(Math.abs(east), Math.abs(north)) / maxStepDeg);
      for (let step = 1; step < steps; step++)
        yield [before[0] + (east * step) / steps, before[1] + (north * step) / steps];
    }
    yield corner;
    before = corner;
  }
}
