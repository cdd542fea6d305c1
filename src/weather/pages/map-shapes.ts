import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { geoAlbersUsa } from 'd3-geo';
import type { Clock } from '../../core/lib/clock.ts';
import { ByteCache } from '../api/answer-cache.ts';
import type { WeatherService } from '../api/service.ts';
import type { ZoneKey } from '../places/position.ts';
import type { AlertData, ConvectiveOutlookData } from '../records/family-fields.ts';
import { polygonsOf, type Ring } from '../shape.ts';
import type { Geometry } from '../values.ts';
import { alertColour, alertRank, outlookColour, riskLevel, riskName } from './colours.ts';

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

/** A state on the map. */
export interface StateOutline {
  /** The two-letter code. */
  code: string;
  name: string;
  /** The bounding box in pixels of the map: left, top, right, bottom. */
  box: readonly [number, number, number, number];
  /** SVG path data. `coarse` is for the map of the country, and `fine` for the map of the state. */
  coarse: string;
  fine: string;
}

let known: readonly StateOutline[] | undefined;

/** Returns all states on the map, sorted by name. */
export function states(): readonly StateOutline[] {
  known ??= JSON.parse(
    readFileSync(packagedFile('templates/weather-pages/states.json'), 'utf8'),
  ) as readonly StateOutline[];
  return known;
}

/** The part of the map to show. */
export interface MapFrame {
  left: number;
  top: number;
  width: number;
  height: number;
}

export const wholeCountry: MapFrame = { left: 0, top: 0, ...mapSize };

/** A wider map would be too low. */
const maxRatio = 2.2;
/** The width of a part of the country on a phone, divided by its height. Also in `weather.css`. */
export const phoneRatio = 1.3;

/**
 * Returns the part of the map to show for a state. It includes a margin. By default, it has the proportions
 * of the whole map, unless the state is wider.
 */
export function frameOf(
  { box: [left, top, right, bottom] }: Pick<StateOutline, 'box'>,
  fixedRatio?: number,
): MapFrame {
  const room = 1.15;
  const least = mapSize.width / mapSize.height;
  const ratio = fixedRatio ?? Math.min(Math.max((right - left) / (bottom - top), least), maxRatio);
  const width = Math.max((right - left) * room, (bottom - top) * room * ratio, 12);
  const height = width / ratio;
  const rounded = (value: number): number => Number(value.toFixed(1));
  return {
    left: rounded((left + right - width) / 2),
    top: rounded((top + bottom - height) / 2),
    width: rounded(width),
    height: rounded(height),
  };
}

export function isWithin({ left, top, width, height }: MapFrame, [x, y]: readonly [number, number]): boolean {
  return x >= left && x <= left + width && y >= top && y <= top + height;
}

/** The states that the map moves next to states that are not their neighbors. */
const movedStates: ReadonlySet<string> = new Set(['AK', 'HI']);

/** Reports whether to draw a state on the map of the chosen one. */
export function isShownWith(chosen: StateOutline, { code, box }: StateOutline, frame: MapFrame): boolean {
  if (code === chosen.code) return true;
  return !movedStates.has(chosen.code) && !movedStates.has(code) && overlaps(frame, box);
}

/** Reports whether two boxes overlap or touch. */
function overlaps(frame: MapFrame, [left, top, right, bottom]: StateOutline['box']): boolean {
  return (
    left <= frame.left + frame.width &&
    right >= frame.left &&
    top <= frame.top + frame.height &&
    bottom >= frame.top
  );
}

/**
 * Returns the path of a file in the package. `file` is relative to the package's root. Works both from source
 * and in a build.
 */
function packagedFile(file: string): string {
  return fileURLToPath(new URL(`../../../${file}`, import.meta.url));
}

/**
 * Returns the outlines of zones as SVG path data. Points that are less than `least` pixels apart are left
 * out.
 */
export type ZoneShapes = (keys: readonly ZoneKey[], least: number) => Promise<ReadonlyMap<ZoneKey, string>>;

/** In milliseconds. The NWS only changes outlines twice a year. */
const keptMs = 60 * 60_000;
const limits = { entries: 20_000, bytes: 16 * 1024 * 1024 };
/** Outlines are large, so we read and convert only this many at a time. */
const batchSize = 50;

export function openZoneShapes(weather: Pick<WeatherService, 'zoneOutlines'>, clock: Clock): ZoneShapes {
  const known = new ByteCache<string>(limits);
  return async (keys, least) => {
    const shapes = new Map<ZoneKey, string>();
    const now = clock.monotonic();
    const wanted: ZoneKey[] = [];
    for (const key of new Set(keys)) {
      const shape = known.get(`${key} ${least}`, now);
      if (shape === undefined) wanted.push(key);
      else shapes.set(key, shape);
    }
    for (let from = 0; from < wanted.length; from += batchSize) {
      const asked = wanted.slice(from, from + batchSize);
      const outlines = await weather.zoneOutlines(asked);
      for (const key of asked) {
        const geometry = outlines.get(key);
        const shape = geometry === undefined ? '' : outlinePath(geometry, least);
        known.set(`${key} ${least}`, shape, { bytes: 2 * shape.length + 64, until: now + keptMs });
        shapes.set(key, shape);
      }
    }
    return shapes;
  };
}

/** Areas with the same color, and their entry in the legend. */
export interface MapArea {
  label: string;
  colour: string;
  /** SVG path data. Empty if no part of the area is on the map. */
  shape: string;
  /** The number of alerts; null for outlooks. */
  count: number | null;
  /** The level of an outlook's category, from 1 to 5; null for any other area. */
  level: number | null;
  /** True for thunderstorms that are not severe, which are drawn faintly. */
  isFaint: boolean;
  /** The outline of each extreme alert. Empty for outlooks. */
  extreme: readonly string[];
}

/** Groups alerts by event. The most important ones come last, because they are drawn on top. */
export async function alertAreas(
  alerts: readonly AlertData[],
  zoneShapes: ZoneShapes,
  least: number,
): Promise<{ areas: MapArea[]; drawn: string[] }> {
  const zones = await zoneShapes(
    alerts.flatMap(({ geometry, affectedZones }) => (geometry === null ? affectedZones : [])),
    least,
  );
  const byEvent = new Map<string, { shapes: Set<string>; count: number; extreme: string[] }>();
  const drawn: string[] = [];
  for (const { id, event, severity, geometry, affectedZones } of alerts) {
    const area = byEvent.get(event) ?? { shapes: new Set(), count: 0, extreme: [] };
    byEvent.set(event, area);
    area.count += 1;
    const shapes =
      geometry === null ? affectedZones.map((key) => zones.get(key) ?? '') : [outlinePath(geometry, least)];
    for (const shape of shapes) area.shapes.add(shape);
    if (severity === 'Extreme') area.extreme.push(shapes.join(''));
    // An alert with its own outline counts as drawn even if it is not on this map.
    if (geometry !== null || (shapes.length > 0 && shapes.every((shape) => shape !== ''))) drawn.push(id);
  }
  const areas = [...byEvent]
    .sort(([a], [b]) => alertRank(b) - alertRank(a) || b.localeCompare(a))
    .map(([event, { shapes, count, extreme }]) => ({
      label: event,
      colour: alertColour(event),
      shape: [...shapes].join(''),
      ...{ count, level: null, isFaint: false, extreme },
    }));
  return { areas, drawn };
}

/** Returns the areas of an outlook, starting with the lowest category. */
export function outlookAreas({ areas }: ConvectiveOutlookData, least: number): MapArea[] {
  return areas
    .filter(
      ({ hazard, kind }) => (hazard === 'categorical' || hazard === 'any_severe') && kind !== 'intensity',
    )
    .map(({ label, labelText, fill, geometry }) => ({
      label: riskName(label, labelText),
      colour: outlookColour({ label, fill }),
      shape: geometry === null ? '' : outlinePath(geometry, least),
      ...{ count: null, level: riskLevel(label), isFaint: label === 'TSTM', extreme: [] },
    }));
}
