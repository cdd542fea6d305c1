import { type MapFrame, mapSize, type Point, type StateOutline } from './map-shapes.ts';

/** Says which parts of the map are in an area. Works on the SVG path data that the page draws. */

/** A closed line of an area, with its bounding box. */
interface Outline {
  points: readonly Point[];
  box: StateOutline['box'];
}

/** Returns the closed lines of SVG path data from `outlinePath`. */
export function outlinesOf(shape: string): Outline[] {
  return shape
    .split('M')
    .slice(1)
    .map((part) => {
      const points = part
        .replace('Z', '')
        .split('L')
        .map((pair): Point => {
          const [x = 0, y = 0] = pair.split(',').map(Number);
          return [x, y];
        });
      const xs = points.map(([x]) => x);
      const ys = points.map(([, y]) => y);
      return { points, box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] };
    });
}

function isInBox([left, top, right, bottom]: Outline['box'], [x, y]: Point): boolean {
  return x >= left && x <= right && y >= top && y <= bottom;
}

/** Reports whether two boxes overlap. */
export function overlap(a: Outline['box'], b: Outline['box']): boolean {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

function isInside({ points, box }: Outline, at: Point): boolean {
  if (!isInBox(box, at)) return false;
  let inside = false;
  let [x1, y1] = points.at(-1) ?? at;
  for (const [x2, y2] of points) {
    if (y1 > at[1] !== y2 > at[1] && at[0] < ((x2 - x1) * (at[1] - y1)) / (y2 - y1) + x1) inside = !inside;
    [x1, y1] = [x2, y2];
  }
  return inside;
}

/** Where a disc is compared with an area: its middle, and points on its edge. */
const directions = Array.from({ length: 8 }, (_, index) => (index * Math.PI) / 4);
/** An area that is smaller than this many discs would be hidden by the figure of a station. */
const smallAreas = 2;

/** Reports whether a disc at a station would hide the small area of a warning. */
export function hidesArea(outlines: readonly Outline[], [x, y]: Point, radius: number): boolean {
  const samples = [
    [x, y] as const,
    ...directions.map((angle) => [x + radius * Math.cos(angle), y + radius * Math.sin(angle)] as const),
  ];
  return outlines.some((outline) => {
    const [left, top, right, bottom] = outline.box;
    if (Math.max(right - left, bottom - top) >= smallAreas * 2 * radius) return false;
    if (!isInBox([left - radius, top - radius, right + radius, bottom + radius], [x, y])) return false;
    return (
      samples.some((sample) => isInside(outline, sample)) ||
      outline.points.some((point) => Math.hypot(point[0] - x, point[1] - y) < radius)
    );
  });
}

/** Reports whether the edge of an area passes through a box, which then is neither inside nor outside. */
export function isCrossed(outlines: readonly Outline[], [left, top, right, bottom]: Outline['box']): boolean {
  const middle = (top + bottom) / 2;
  const samples = [0, 1, 2, 3, 4].map((step): Point => [left + ((right - left) * step) / 4, middle]);
  const corners = [left, right].flatMap((x) => [top, bottom].map((y): Point => [x, y]));
  return outlines.some((outline) => {
    const count = [...samples, ...corners].filter((at) => isInside(outline, at)).length;
    return count > 0 && count < samples.length + corners.length;
  });
}

const lands = new WeakMap<StateOutline, Outline[]>();

function landOf(state: StateOutline): Outline[] {
  const land = lands.get(state) ?? outlinesOf(state.coarse);
  lands.set(state, land);
  return land;
}

/** The number of steps that search an area in each direction. */
const steps = 32;

const landPoints = new WeakMap<StateOutline, readonly Point[]>();

/** Returns points that are spread over the land of a state. */
function landPointsOf(state: StateOutline): readonly Point[] {
  const points = landPoints.get(state) ?? gridOf(state).filter((at) => isOnLand(state, at));
  landPoints.set(state, points);
  return points;
}

function isOnLand(state: StateOutline, at: Point): boolean {
  return isInBox(state.box, at) && landOf(state).some((one) => isInside(one, at));
}

/** Reports whether a point is in an area, and not in one of its holes. */
function isInArea(area: readonly Outline[], at: Point): boolean {
  return area.filter((outline) => isInside(outline, at)).length % 2 === 1;
}

/** Returns the states that are partly in an area, in their given order. */
export function statesIn(shape: string, states: readonly StateOutline[]): StateOutline[] {
  const area = outlinesOf(shape);
  // A small area can be between the points of a state. The points of the area find the state.
  let points: readonly Point[] | undefined;
  const isAround = (state: StateOutline): boolean => {
    points ??= area.flatMap(gridOf).filter((at) => isInArea(area, at));
    return points.some((at) => isOnLand(state, at));
  };
  return states
    .filter(({ box }) => area.some((outline) => overlap(outline.box, box)))
    .filter((state) => landPointsOf(state).some((at) => isInArea(area, at)) || isAround(state));
}

/** The least part of the map's width to show around areas, and the space around them. */
const minFrame = 0.36;
const frameRoom = 1.15;

/** Returns the part of the map of the country around areas, in these proportions. null without areas. */
export function frameAround(shapes: readonly string[], ratio: number): MapFrame | null {
  const boxes = shapes.flatMap(outlinesOf).map(({ box }) => box);
  if (boxes.length === 0) return null;
  const edge = (side: number, best: (...values: number[]) => number): number =>
    best(...boxes.map((box) => box[side] ?? 0));
  const [left, top, right, bottom] = [
    edge(0, Math.min),
    edge(1, Math.min),
    edge(2, Math.max),
    edge(3, Math.max),
  ];
  const needed = Math.max(right - left, (bottom - top) * ratio) * frameRoom;
  const width = Math.min(Math.max(needed, mapSize.width * minFrame), mapSize.width);
  const height = width / ratio;
  const within = (middle: number, size: number, whole: number): number =>
    size > whole ? (whole - size) / 2 : Math.min(Math.max(middle - size / 2, 0), whole - size);
  return {
    left: within((left + right) / 2, width, mapSize.width),
    top: within((top + bottom) / 2, height, mapSize.height),
    ...{ width, height },
  };
}

/** A label's half width and half height, in pixels of the map. */
export type LabelSize = readonly [number, number];

const roomiest = new WeakMap<StateOutline, readonly Point[]>();

/** Returns points in the largest part of a state, starting with the one farthest from its border. */
function roomiestIn(state: StateOutline): readonly Point[] {
  const known = roomiest.get(state);
  if (known !== undefined) return known;
  const sizeOf = ({ box: [left, top, right, bottom] }: Outline): number => (right - left) * (bottom - top);
  const [land] = [...landOf(state)].sort((a, b) => sizeOf(b) - sizeOf(a));
  const points =
    land === undefined
      ? []
      : gridOf(land)
          .filter((at) => isInside(land, at))
          .map((at) => ({ at, room: roomAt(land, at) }))
          .sort((a, b) => b.room - a.room)
          .map(({ at }) => at);
  roomiest.set(state, points);
  return points;
}

/** Returns the distance of a point from the corners of an outline. */
function roomAt({ points }: Outline, [x, y]: Point): number {
  return Math.min(...points.map((corner) => Math.hypot(corner[0] - x, corner[1] - y)));
}

/** Returns the middle of a label in a state. null if no place is large enough and free. */
export function labelPoint(
  state: StateOutline,
  [halfWidth, halfHeight]: LabelSize,
  isFree: (at: Point) => boolean,
): Point | null {
  const land = landOf(state);
  const isWhole = ([x, y]: Point): boolean =>
    [-halfWidth, halfWidth].every((dx) =>
      [-halfHeight, halfHeight].every((dy) => land.some((one) => isInside(one, [x + dx, y + dy]))),
    );
  return roomiestIn(state).find((at) => isWhole(at) && isFree(at)) ?? null;
}

function gridOf({ box: [left, top, right, bottom] }: Pick<Outline, 'box'>): Point[] {
  const at = (from: number, to: number, index: number): number =>
    from + ((to - from) * (index + 0.5)) / steps;
  return Array.from({ length: steps * steps }, (_, index): Point => [
    at(left, right, index % steps),
    at(top, bottom, Math.floor(index / steps)),
  ]);
}
